// The `strata` command.
#include <cstdio>
#include <exception>

#include "cli/bench_nvme.hpp"
#include "cli/bench_step.hpp"
#include "cli/options.hpp"
#include "cli/verbs.hpp"
#include "runtime/errors.hpp"

namespace {

struct Runner {
  int operator()(const strata::TextRequest& r) const {
    std::fputs(r.text.c_str(), stdout);
    return 0;
  }
  int operator()(const strata::TrainArgs& a) const { return strata::run_train(a); }
  int operator()(const strata::PlanArgs& a) const { return strata::run_plan(a); }
  int operator()(const strata::VerifyArgs& a) const { return strata::run_verify(a); }
  int operator()(const strata::PoliciesArgs& a) const { return strata::run_policies(a); }
  int operator()(const strata::BenchStepArgs& a) const { return strata::run_bench_step(a); }
  int operator()(const strata::BenchNvmeArgs& a) const { return strata::run_bench_nvme(a); }
};

}  // namespace

int main(int argc, char** argv) {
  try {
    if (const auto code = strata::worker_main(argc, argv)) return *code;
    return std::visit(Runner{}, strata::parse_command_line(argc, argv));
  } catch (const strata::Error& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return e.exit_code();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error: the operating system refused memory; lower the budgets\n");
    return 5;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
