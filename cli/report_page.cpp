#include "cli/report_page.hpp"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace strata {
namespace {

/// In a script element only `<` could end it, or begin a comment.
std::string script_text(const nlohmann::ordered_json& data) {
  const std::string json = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string out;
  out.reserve(json.size());
  for (const char c : json) c == '<' ? out += "\\u003c" : out += c;
  return out;
}

/// Takes each `{{NAME}}` of the template for a part; parts are not looked into again.
std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string_view, std::string_view>>& parts) {
  std::string out;
  for (size_t at = 0; at < page.size();) {
    const size_t open = page.find("{{", at);
    out += page.substr(at, open - at);
    if (open == std::string_view::npos) break;
    const size_t close = page.find("}}", open);
    const std::string_view name = page.substr(open + 2, close - open - 2);
    for (const auto& [part, text] : parts) {
      if (part == name) out += text;
    }
    at = close + 2;
  }
  return out;
}

}  // namespace

std::string report_page(const nlohmann::ordered_json& data) {
  return filled(kPageHtml, {{"STYLE", kPageCss},
                            {"DATA", script_text(data)},
                            {"CHARTS", kChartsJs},
                            {"STEP", kStepJs},
                            {"PAGE", kPageJs}});
}

}  // namespace strata
