// One line of a JSON-lines file: an object of known keys.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata {

/// Every refusal is a ConfigError "FILE:NUMBER: what is wrong, and what to do". Keys asked for must
/// be there, unless `has` says otherwise.
class JsonLine {
 public:
  /// Refuses what is not one JSON object, names a key twice, or has values that are neither plain
  /// nor lists of plain values or of such lists.
  JsonLine(std::string_view file, uint64_t number, std::string_view text);
  ~JsonLine();
  JsonLine(const JsonLine&) = delete;

  [[noreturn]] void refuse(const std::string& why) const;
  bool has(const char* key) const;
  /// Refuses every other key.
  void only(std::initializer_list<std::string_view> keys) const;

  /// A whole number from 0 to `most`.
  uint64_t count(const char* key, uint64_t most) const;
  /// A number that is finite.
  double number(const char* key) const;
  bool flag(const char* key) const;
  /// Not empty, and without control characters.
  std::string text(const char* key) const;
  /// A list of whole numbers.
  std::vector<uint64_t> counts(const char* key) const;
  /// A list of lists [whole number, text].
  std::vector<std::pair<uint64_t, std::string>> labelled_counts(const char* key) const;

 private:
  struct Object;
  std::string_view file_;
  uint64_t number_;
  std::unique_ptr<Object> object_;
};

}  // namespace strata
