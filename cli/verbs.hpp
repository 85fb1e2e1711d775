// One function a verb. Each returns the exit code and throws strata::Error for the rest.
#pragma once
#include "cli/options.hpp"

namespace strata {

int run_train(const TrainArgs&);
int run_resume(const ResumeArgs&);
int run_generate(const GenerateArgs&);
int run_eval(const EvalArgs&);
int run_inspect(const InspectArgs&);
/// 1 when something would stop a run.
int run_doctor(const DoctorArgs&);
int run_plan(const PlanArgs&);
int run_verify(const VerifyArgs&);
int run_trace(const TraceArgs&);
/// 3 when no combination fits.
int run_sim(const SimArgs&);
int run_report(const ReportArgs&);
int run_policies(const PoliciesArgs&);
int run_probe(const ProbeArgs&);

}  // namespace strata
