// What a verb prints, and where.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// Text for people, in which names from files may be: control characters but for line ends and tabs
/// become `\xNN`, so that none reaches a terminal as a command.
std::string printable(std::string_view);

/// Human text goes to stdout; with --json it goes to stderr, and stdout gets exactly one object.
class Output {
 public:
  explicit Output(bool json, std::FILE* out = stdout, std::FILE* err = stderr)
      : json_(json), out_(out), err_(err) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  bool json() const noexcept { return json_; }

  /// One line or several, as `printable`, flushed; a newline is added.
  void text(std::string_view lines);

  /// A part of a line, as it is, flushed.
  void piece(std::string_view part);

  /// The one object of this run, serialised; does nothing without --json. A second one is a
  /// StateError. Throws IoError when stdout cannot be written.
  void result(std::string_view json_object);

 private:
  bool json_;
  bool has_result_ = false;
  std::FILE* out_;
  std::FILE* err_;
};

/// Rows as lines with aligned columns: the first to the left, all others to the right, two spaces
/// between. Rows may be short; no newline at the end.
std::string aligned_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace strata
