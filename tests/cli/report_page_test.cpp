#include "cli/report_page.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/report_data.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

Json embedded(const std::string& page) {
  const std::string open = "id=\"data\">";
  const size_t begin = page.find(open) + open.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(ReportPage, HoldsItsDataWhateverIsInIt) {
  const Json data = {{"run", "a</script><script>alert(1)</script><!--"},
                     {"command", "{{STYLE}} & \"quotes\" \\ \xe2\x80\xa8 \x01"},
                     {"numbers", {1, 2.5, nullptr}}};
  const std::string page = report_page(data);
  EXPECT_EQ(embedded(page), data);
  EXPECT_EQ(count(page, "<script"), 2u) << "the data and the code";
  EXPECT_EQ(count(page, "</script"), 2u);
  EXPECT_EQ(page.find("<!--"), std::string::npos);
}

TEST(ReportPage, TextThatIsNoUtf8IsReplaced) {
  const Json data = {{"run", "\xff\xfe"}};
  EXPECT_EQ(embedded(report_page(data))["run"], "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(ReportPage, NeedsNothingFromElsewhere) {
  const std::string page = report_page(Json::object());
  for (const char* part : {"http:", "https:", "src=", "href=", "url(", "@import", "import(",
                           "fetch(", "XMLHttpRequest", "{{"}) {
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  }
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(page.find("@media print"), std::string::npos);
}

std::string line(uint64_t step, double loss, const std::string& more = "") {
  return "{\"step\":" + std::to_string(step) + ",\"loss\":" + std::to_string(loss) + more + "}\n";
}

TEST(MetricColumns, AreMeansOfEquallyManySteps) {
  std::string text;
  for (uint64_t s = 1; s <= 7; ++s) {
    text += line(s, static_cast<double>(s), s == 6 ? ",\"validation_loss\":9" : "");
  }
  const Json j = metric_columns(text, "m", 3);
  EXPECT_EQ(j["steps"], 7);
  EXPECT_EQ(j["steps_per_point"], 3);
  EXPECT_EQ(j["step"], Json({3, 6, 7}));
  EXPECT_EQ(j["loss"], Json({2.0, 5.0, 7.0}));
  EXPECT_EQ(j["lr"], Json({nullptr, nullptr, nullptr}));
  EXPECT_EQ(j["validation"], Json::array({Json::array({6, 9})}));
}

TEST(MetricColumns, LeavesOutLinesThatAreNone) {
  const Json j =
      metric_columns("{\"step\":1,\"loss\":null}\nno\n[1]\n" + line(2, 3) + "{\"st", "m");
  EXPECT_EQ(j["step"], Json({1, 2}));
  EXPECT_EQ(j["loss"], Json({nullptr, 3.0}));
  EXPECT_THROW(metric_columns("", "m"), ConfigError);
  EXPECT_THROW(metric_columns("nothing\n", "m"), ConfigError);
}

}  // namespace
}  // namespace strata
