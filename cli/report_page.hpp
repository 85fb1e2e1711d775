// The page that `strata report` writes.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace strata {

/// Files of cli/report, embedded by the build.
extern const std::string_view kPageHtml, kPageCss, kPageJs, kChartsJs, kStepJs;

/// One HTML file that needs nothing else: styles, scripts and the data. Text in the data may be
/// anything.
std::string report_page(const nlohmann::ordered_json& data);

}  // namespace strata
