#include "cli/output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "runtime/errors.hpp"

namespace strata {

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool c1 = c == 0xc2 && next >= 0x80 && next < 0xa0;  // U+0080 to U+009F
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f || c1) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", c1 ? next : c);
      i += c1;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

void Output::text(std::string_view lines) {
  std::FILE* file = json_ ? err_ : out_;
  fmt::print(file, "{}\n", printable(lines));
  std::fflush(file);
}

void Output::piece(std::string_view part) {
  std::FILE* file = json_ ? err_ : out_;
  std::fwrite(part.data(), 1, part.size(), file);
  std::fflush(file);
}

void Output::result(std::string_view json_object) {
  if (!json_) return;
  if (has_result_) throw StateError("a second JSON object for one command");
  has_result_ = true;
  errno = 0;
  const bool written =
      std::fwrite(json_object.data(), 1, json_object.size(), out_) == json_object.size() &&
      std::fputc('\n', out_) != EOF;
  if (!written || std::fflush(out_) != 0) {
    throw IoError(fmt::format("cannot write the result to stdout: {}", std::strerror(errno)));
  }
}

std::string aligned_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  for (const auto& row : rows) {
    if (&row != &rows.front()) table += '\n';
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    table += line;
  }
  return table;
}

}  // namespace strata
