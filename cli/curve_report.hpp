// What `strata bench curve` found, as text and JSON.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/options.hpp"
#include "offload/machine.hpp"

namespace strata {

/// One round of one policy: everything is measured anew. Seconds of a step.
struct CurveSample {
  double compute = 0;   ///< forward, loss and backward kernels, called directly
  double update = 0;    ///< norm and optimizer, called directly
  double nvme = 0;      ///< the plan's reads and writes alone, both ways at once
  double step = 0;      ///< within the budgets
  double resident = 0;  ///< with everything on the device
  /// Bandwidth of the drive in the training loop over that of fio.
  std::optional<double> over_fio;
  std::optional<double> others_share;

  /// Nothing is copied by the processors: there is no host tier.
  double cpu() const noexcept { return compute + update; }
  double roofline() const noexcept { return cpu() > nvme ? cpu() : nvme; }
  double ratio() const noexcept { return step / roofline(); }
  double retained() const noexcept { return resident / step; }
  /// Infinite where nothing is transferred.
  double x() const noexcept { return cpu() / nvme; }
};

/// One policy at one batch.
struct CurvePoint {
  std::string policy;
  double wanted_x = 0;
  double x = 0;  ///< median; of `resident`, which transfers nothing, that of the first policy
  uint64_t tokens = 0, device_bytes = 0;
  double nvme_read_bytes = 0, nvme_write_bytes = 0;  ///< a step
  std::vector<CurveSample> samples;

  /// Median, least and most of what a sample says. `samples` is not empty.
  MeasuredRate of(double (CurveSample::*)() const noexcept) const;
  MeasuredRate of(double CurveSample::*) const;
  /// Nothing where no sample knows.
  std::optional<MeasuredRate> over_fio() const;
  double others_share() const noexcept;  ///< the most of a sample
};

/// The point of the first policy where transfers take longest beside computing, if fio was there.
const CurvePoint* most_nvme_bound(std::span<const CurvePoint>);

std::string curve_line(const CurvePoint&);
std::string curve_table(std::span<const CurvePoint>);
std::string curve_json(const BenchCurveArgs&, std::span<const CurvePoint>);

}  // namespace strata
