// The `strata` command.
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <system_error>

#include "cli/bench_adam.hpp"
#include "cli/bench_curve.hpp"
#include "cli/bench_nvme.hpp"
#include "cli/bench_policies.hpp"
#include "cli/bench_step.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "runtime/errors.hpp"

namespace {

struct Runner {
  int operator()(const strata::TextRequest& r) const {
    std::fputs(r.text.c_str(), stdout);
    return 0;
  }
  int operator()(const strata::TrainArgs& a) const { return strata::run_train(a); }
  int operator()(const strata::ResumeArgs& a) const { return strata::run_resume(a); }
  int operator()(const strata::GenerateArgs& a) const { return strata::run_generate(a); }
  int operator()(const strata::EvalArgs& a) const { return strata::run_eval(a); }
  int operator()(const strata::InspectArgs& a) const { return strata::run_inspect(a); }
  int operator()(const strata::DoctorArgs& a) const { return strata::run_doctor(a); }
  int operator()(const strata::PlanArgs& a) const { return strata::run_plan(a); }
  int operator()(const strata::VerifyArgs& a) const { return strata::run_verify(a); }
  int operator()(const strata::TraceArgs& a) const { return strata::run_trace(a); }
  int operator()(const strata::SimArgs& a) const { return strata::run_sim(a); }
  int operator()(const strata::ReportArgs& a) const { return strata::run_report(a); }
  int operator()(const strata::PoliciesArgs& a) const { return strata::run_policies(a); }
  int operator()(const strata::ProbeArgs& a) const { return strata::run_probe(a); }
  int operator()(const strata::BenchStepArgs& a) const { return strata::run_bench_step(a); }
  int operator()(const strata::BenchAdamArgs& a) const { return strata::run_bench_adam(a); }
  int operator()(const strata::BenchCurveArgs& a) const { return strata::run_bench_curve(a); }
  int operator()(const strata::BenchPoliciesArgs& a) const { return strata::run_bench_policies(a); }
  int operator()(const strata::BenchNvmeArgs& a) const { return strata::run_bench_nvme(a); }
};

/// Files opened later must not take the place of closed standard streams.
void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) std::abort();
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  try {
    if (const auto code = strata::worker_main(argc, argv)) return *code;
    const int code = std::visit(Runner{}, strata::parse_command_line(argc, argv));
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw strata::IoError("cannot write to stdout; part of the output is lost");
    }
    return code;
  } catch (const strata::Error& e) {
    std::fprintf(stderr, "error: %s\n", strata::printable(e.what()).c_str());
    return e.exit_code();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error: the operating system refused memory; lower the budgets\n");
    return 5;
  } catch (const std::system_error& e) {
    std::fprintf(stderr,
                 "error: the operating system refused threads or memory (%s); lower --threads, or "
                 "raise its limits (ulimit -u, ulimit -v)\n",
                 e.what());
    return 5;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", strata::printable(e.what()).c_str());
    return 1;
  }
}
