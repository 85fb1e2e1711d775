#include "offload/advice.hpp"

#include <algorithm>
#include <utility>

#include "offload/roofline.hpp"

namespace strata {
namespace {

constexpr size_t at(Resource r) { return static_cast<size_t>(r); }

/// Work of less than this says nothing of a rate.
constexpr double kEnoughSeconds = 1e-4;
constexpr double kWorthwhile = 0.02;
constexpr double kNearlyAll = 0.95;

}  // namespace

VirtualRates rates_of_run(const MeasuredStep& m, const Prediction& predicted, VirtualRates rates) {
  const double compute = m.compute();
  if (compute > kEnoughSeconds && predicted.work[at(Resource::compute)] > 0) {
    const double faster = predicted.work[at(Resource::compute)] / compute;
    rates.flops_per_second *= faster;
    rates.memory_bytes_per_second *= faster;
    rates.latency_seconds = std::min(rates.latency_seconds, rates.latency_seconds / faster);
  }
  const double updates = m.busy[at(Resource::update)];
  if (updates > kEnoughSeconds && predicted.work[at(Resource::update)] > 0) {
    rates.update_bytes_per_second *= predicted.work[at(Resource::update)] / updates;
  }
  const auto link = [&](Resource r, uint64_t bytes, double& rate) {
    if (m.busy[at(r)] > kEnoughSeconds && bytes != 0) {
      rate = static_cast<double>(bytes) / m.busy[at(r)];
    }
  };
  link(Resource::h2d, m.h2d_bytes, rates.h2d_bytes_per_second);
  link(Resource::d2h, m.d2h_bytes, rates.d2h_bytes_per_second);
  link(Resource::nvme_read, m.nvme_read_bytes, rates.nvme_read_bytes_per_second);
  link(Resource::nvme_write, m.nvme_write_bytes, rates.nvme_write_bytes_per_second);
  rates.nvme_mixed_bytes_per_second = 0;
  rates.one_processor = true;
  return rates;
}

std::optional<MemoryAdvice> advise_memory(
    double now, uint64_t most, uint32_t calls,
    const std::function<std::optional<double>(uint64_t more)>& predict) {
  MemoryAdvice advice;
  const auto ask = [&](uint64_t more) {
    ++advice.predictions;
    return predict(more);
  };
  const std::optional<double> least = ask(most);
  if (!least || now - *least < kWorthwhile * now) return std::nullopt;
  advice.more = most;
  advice.step_seconds = advice.least_seconds = *least;
  const double enough = now - kNearlyAll * (now - *least);
  uint64_t too_little = 0;
  while (advice.predictions < std::max(calls, 2u) && advice.more - too_little > most / 64) {
    const uint64_t middle = too_little + (advice.more - too_little) / 2;
    const std::optional<double> seconds = ask(middle);
    if (seconds && *seconds <= enough) {
      advice.more = middle;
      advice.step_seconds = *seconds;
    } else {
      too_little = middle;
    }
  }
  return advice;
}

std::optional<double> critical_tokens(const std::array<double, kResources>& work,
                                      const VirtualRates& rates, uint64_t tokens) {
  std::array<double, kResources> beside = work;
  const double compute = std::exchange(beside[at(Resource::compute)], 0);
  double on_cores = 0;
  if (rates.one_processor) {
    for (const Resource r : {Resource::update, Resource::h2d, Resource::d2h}) {
      on_cores += std::exchange(beside[at(r)], 0);
    }
  }
  const double longest = roofline(beside, rates).seconds;
  if (longest <= 0 || compute <= 0) return std::nullopt;
  return static_cast<double>(tokens) * std::max(0.0, longest - on_cores) / compute;
}

}  // namespace strata
