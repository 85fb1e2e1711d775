#include "cli/bench_nvme.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/bench_step.hpp"  // median
#include "cli/cpu_time.hpp"
#include "cli/fio.hpp"
#include "cli/nvme_transfers.hpp"
#include "cli/output.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

NvmeOptions transfer_options(const BenchNvmeArgs& a, const std::string& engine) {
  NvmeOptions o;
  o.directories = {a.directory};
  o.unit_bytes = a.block_bytes;
  o.request_bytes = static_cast<uint32_t>(a.block_bytes);
  o.units = static_cast<uint32_t>(a.file_bytes / a.block_bytes);
  o.depth = a.depth;
  o.engine = engine;
  return o;
}

/// Samples of one way to transfer, for each mix.
using Samples = std::array<std::vector<double>, kTransferMixes>;

Json rates_json(const Samples& s) {
  Json j;
  for (size_t m = 0; m < kTransferMixes; ++m) {
    j[std::string(name_of(static_cast<TransferMix>(m))) + "_GBps"] =
        s[m].empty() ? Json(nullptr) : Json(median(s[m]) * 1e-9);
  }
  return j;
}

std::vector<std::string> rates_row(const std::string& name, const Samples& s) {
  std::vector<std::string> row = {name};
  for (const auto& samples : s) {
    row.push_back(samples.empty() ? "-" : fmt::format("{:.2f} GB/s", median(samples) * 1e-9));
  }
  return row;
}

/// Ours over fio's, pair by pair.
std::vector<double> ratios(const std::vector<double>& ours, const std::vector<double>& fio) {
  std::vector<double> out;
  for (size_t i = 0; i < fio.size(); ++i) out.push_back(ours[i] / fio[i]);
  return out;
}

}  // namespace

int run_bench_nvme(const BenchNvmeArgs& a) {
  Output out(a.json);
  const bool fio = has_fio();
  std::vector<std::string> engines = {"threads"};
  if (why_no_uring().empty()) engines.insert(engines.begin(), "io_uring");
  std::vector<std::unique_ptr<NvmeTransfers>> ours;
  ours.reserve(engines.size());
  for (const std::string& e : engines)
    ours.push_back(std::make_unique<NvmeTransfers>(transfer_options(a, e)));
  out.text(fmt::format("{}: a file of {}, blocks of {}, {} in flight{}", a.directory,
                       format_bytes(a.file_bytes), format_bytes(a.block_bytes), a.depth,
                       fio ? "" : "; fio is not installed, so there is nothing to compare with"));
  if (engines.size() == 1) out.text("io_uring does not work here: " + why_no_uring());
  if (!ours.front()->store().direct()) {
    out.text("This file system has no transfers past the page cache: figures are those of memory.");
  }
  if (const std::string& why = ours.front()->store().memory_reason(); !why.empty()) out.text(why);
  // fio opens the first engine's file: written through, and gone with this process.
  FioJob job{ours.front()->store().file_path(0),
             a.file_bytes,
             a.block_bytes,
             a.depth,
             a.seconds,
             TransferMix::read,
             true};
  std::vector<Samples> rates(ours.size());
  Samples tuned, plain, others;
  for (size_t m = 0; m < kTransferMixes; ++m) {
    const auto mix = static_cast<TransferMix>(m);
    job.mix = mix;
    for (uint32_t i = 0; i < a.pairs; ++i) {
      const auto run_tuned = [&] {
        if (!fio) return;
        job.huge_pages = true;
        tuned[m].push_back(run_fio(job));
      };
      const CpuWatch watch;
      // Turns alternate, so that a drive that slows down or speeds up favours neither.
      if (i % 2 == 0) run_tuned();
      rates[0][m].push_back(ours[0]->measure(mix, a.seconds));
      if (i % 2 == 1) run_tuned();
      for (size_t e = 1; e < ours.size(); ++e) {
        rates[e][m].push_back(ours[e]->measure(mix, a.seconds));
      }
      if (const auto share = watch.others_share()) others[m].push_back(*share);
    }
  }
  // Last, since its random bytes are not those that our checksums expect.
  job.huge_pages = false;
  for (size_t m = 0; fio && m < kTransferMixes; ++m) {
    job.mix = static_cast<TransferMix>(m);
    plain[m].push_back(run_fio(job));
  }

  std::vector<std::vector<std::string>> rows = {{"", "read", "write", "mixed"}};
  Json j = {{"engines", Json::object()}};
  for (size_t e = 0; e < engines.size(); ++e) {
    rows.push_back(rates_row(engines[e], rates[e]));
    j["engines"][engines[e]] = rates_json(rates[e]);
  }
  rows.push_back(rates_row("fio, huge pages", tuned));
  rows.push_back(rates_row("fio as it comes", plain));
  j["fio"] = rates_json(tuned);
  j["fio_default"] = rates_json(plain);
  j["ratio"] = Json::object();
  j["others_share"] = Json::object();
  std::vector<std::string> ratio_row = {engines[0] + " over fio"}, spread = {"  least, most"},
                           noise = {"CPUs others took, most"};
  double most_noise = 0;
  for (size_t m = 0; m < kTransferMixes; ++m) {
    const std::vector<double> r = ratios(rates[0][m], tuned[m]);
    j["ratio"][name_of(static_cast<TransferMix>(m))] = r.empty() ? Json(nullptr) : Json(median(r));
    ratio_row.push_back(r.empty() ? "-" : fmt::format("{:.3f}", median(r)));
    const auto [least, most] = std::minmax_element(r.begin(), r.end());
    spread.push_back(r.empty() ? "-" : fmt::format("{:.3f}, {:.3f}", *least, *most));
    j["others_share"][name_of(static_cast<TransferMix>(m))] = others[m];
    const auto worst = std::ranges::max_element(others[m]);
    noise.push_back(others[m].empty() ? "-" : fmt::format("{:.1f} %", 100 * *worst));
    if (!others[m].empty()) most_noise = std::max(most_noise, *worst);
  }
  rows.push_back(ratio_row);
  rows.push_back(spread);
  rows.push_back(noise);
  out.text(aligned_table(rows));
  if (most_noise > kNoisyShare) out.text(noise_warning(most_noise));
  j["others_share_max"] = most_noise;
  j["memory_registered"] = ours.front()->store().memory_reason().empty();
  j["direct"] = ours.front()->store().direct();
  j["block_bytes"] = a.block_bytes;
  j["depth"] = a.depth;
  j["pairs"] = a.pairs;
  out.result(j.dump());
  return 0;
}

}  // namespace strata
