// `strata report`.
#include "cli/output.hpp"
#include "cli/report_data.hpp"
#include "cli/report_page.hpp"
#include "cli/verbs.hpp"
#include "runtime/files/file_io.hpp"
#include "runtime/files/watched_files.hpp"

namespace strata {

int run_report(const ReportArgs& args) {
  Output out(args.json);
  const nlohmann::ordered_json data = report_data(args);
  const std::string path = args.out.empty() ? args.run + "/report.html" : args.out;
  replace_text(watched_files(), path, report_page(data));
  out.text("wrote " + path);
  out.result(data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return 0;
}

}  // namespace strata
