#include "cli/bench_adam.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/bench_step.hpp"  // median
#include "cli/cpu_time.hpp"
#include "cli/output.hpp"
#include "runtime/errors.hpp"
#include "runtime/host/host_backend.hpp"
#include "runtime/kernels/isa.hpp"
#include "runtime/memory.hpp"
#include "runtime/topology.hpp"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using kernels::StreamStores;

/// Elements of a chunk as `auto` cuts GPT-2: its largest matrix but the embedding.
constexpr uint64_t kChunkElems = 768 * 3072;
/// Slices of planes are multiples of so many elements.
constexpr uint64_t kGrain = 2048;

/// Weight, remainder, gradient, m and v of an element.
constexpr uint64_t state_bytes(DType type) { return 8 + (type == DType::f32 ? 8 : 6); }
/// Read and written by an update.
constexpr uint64_t moved_bytes(DType type) { return 16 + (type == DType::f32 ? 12 : 10); }

uint64_t elems_of(uint64_t bytes, DType type) {
  const uint64_t elems = (bytes + state_bytes(type) - 1) / state_bytes(type);
  return (elems + kGrain - 1) / kGrain * kGrain;
}

/// State as a run has it: chunk after chunk in one arena, each plane in units of its own.
class AdamArrays {
 public:
  AdamArrays(uint64_t bytes, DType type, ThreadPool& pool)
      : type_(type),
        elems_(elems_of(bytes, type)),
        arena_(allocate_pages(elems_ * state_bytes(type), "bench adam")),
        pool_(pool) {
    std::byte* at = arena_.base();
    const auto take = [&at](uint64_t n) { return std::exchange(at, at + n); };
    for (uint64_t done = 0; done < elems_; done += slices_.back().n) {
      kernels::AdamWSlice s{};
      s.n = std::min(kChunkElems, elems_ - done);
      s.weight_decay = 0.1f;
      s.weight = take(s.n * size_of(type));
      if (type == DType::bf16) s.remainder = reinterpret_cast<uint16_t*>(take(s.n * 2));
      s.grad = take(s.n * size_of(type));
      s.m = reinterpret_cast<float*>(take(s.n * 4));
      s.v = reinterpret_cast<float*>(take(s.n * 4));
      slices_.push_back(s);
    }
    const ThreadPool::Turn turn(pool);
    for (const kernels::AdamWSlice& s : slices_) fill(s);
  }

  uint64_t elems() const { return elems_; }

  /// Seconds of an update of everything, chunk by chunk as the engine does it.
  double adamw() const {
    const kernels::AdamWParams params{1e-4, 0.9, 0.999, 1e-8};
    const kernels::StepScale scale{0.5f, 1, 10.0f, 1000.0f};
    return time([&](std::span<const kernels::AdamWSlice> chunk) {
      kernels::adamw(pool_, chunk, type_, type_, params, &scale);
    });
  }
  double stream(StreamStores stores) const {
    return time([&](std::span<const kernels::AdamWSlice> chunk) {
      kernels::stream_in_place(pool_, chunk, type_, 0, stores);
    });
  }

 private:
  template <class F>
  double time(F&& update) const {
    const ThreadPool::Turn turn(pool_);
    const auto start = Clock::now();
    for (const kernels::AdamWSlice& s : slices_) update(std::span(&s, 1));
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  /// Weights and gradients of usual sizes; m and v are zero, as a new arena is, before step 1.
  void fill(const kernels::AdamWSlice& s) const {
    const auto put = [this](void* array, uint64_t i, float x) {
      const auto bits = std::bit_cast<uint32_t>(x);
      if (type_ == DType::f32) {
        static_cast<uint32_t*>(array)[i] = bits;
      } else {
        static_cast<uint16_t*>(array)[i] = static_cast<uint16_t>(bits >> 16);
      }
    };
    pool_.parallel_for(static_cast<uint32_t>(s.n / kGrain), [&](uint32_t block) {
      for (uint64_t i = block * kGrain; i < (block + 1) * kGrain; ++i) {
        const auto x = static_cast<float>((i * 2654435761u) >> 8 & 0xffff) * 0x1p-16f - 0.5f;
        put(s.weight, i, 0.1f * x);
        put(const_cast<void*>(s.grad), i, 1e-3f * x);
      }
    });
  }

  DType type_;
  uint64_t elems_;
  Arena arena_;
  ThreadPool& pool_;
  std::vector<kernels::AdamWSlice> slices_;
};

/// Every arm forwards and backwards: a machine that slows down or speeds up favours none.
AdamPair measure_pair(const AdamArrays& a) {
  AdamPair p;
  constexpr size_t kArms = 1 + kernels::kStreamStores;
  for (size_t turn = 0; turn < 2 * kArms; ++turn) {
    const size_t arm = turn < kArms ? turn : 2 * kArms - 1 - turn;
    if (arm == 0) {
      p.adamw += a.adamw();
    } else {
      p.stream[arm - 1] += a.stream(static_cast<StreamStores>(arm - 1));
    }
  }
  return p;
}

struct Result {
  AdamSummary summary;
  double round_gigabytes = 0;  // that an arm moves in a round
  uint64_t array_bytes = 0;
  std::optional<double> others_share;

  double rate(double seconds) const { return round_gigabytes / seconds; }
  double least() const { return *std::ranges::min_element(summary.fractions); }
  double most() const { return *std::ranges::max_element(summary.fractions); }
};

Result measure(const BenchAdamArgs& args, DType type, ThreadPool& pool) {
  const AdamArrays arrays(args.bytes, type, pool);
  measure_pair(arrays);  // touches every page, wakes every thread
  std::vector<AdamPair> pairs;
  const CpuWatch watch;
  for (uint32_t i = 0; i < args.pairs; ++i) pairs.push_back(measure_pair(arrays));
  Result r;
  r.others_share = watch.others_share();
  r.summary = summarize(pairs);
  r.round_gigabytes = 2e-9 * static_cast<double>(arrays.elems() * moved_bytes(type));
  r.array_bytes = arrays.elems() * state_bytes(type);
  return r;
}

double stream_seconds(const AdamPair& p, StreamStores s) {
  return p.stream[static_cast<size_t>(s)];
}

Json result_json(const Result& r) {
  const AdamPair& m = r.summary.median;
  const auto rate = [&](StreamStores s) { return r.rate(stream_seconds(m, s)); };
  return {{"array_bytes", r.array_bytes},
          {"adamw_GBps", r.rate(m.adamw)},
          {"stream_temporal_GBps", rate(StreamStores::temporal)},
          {"stream_non_temporal_GBps", rate(StreamStores::non_temporal)},
          {"stream_prefetched_GBps", rate(StreamStores::prefetched)},
          {"fraction_min", r.least()},
          {"fraction_max", r.most()},
          {"prefetched_fraction", r.summary.prefetched_fraction},
          {"others_share", r.others_share ? Json(*r.others_share) : Json(nullptr)}};
}

std::string table(const Result& fp32, const Result& bf16) {
  std::vector<std::vector<std::string>> rows = {{"", "fp32", "bf16"}};
  const auto row = [&](const char* name, auto&& text) {
    rows.push_back({name, text(fp32), text(bf16)});
  };
  const auto rate = [](auto seconds) {
    return [seconds](const Result& r) {
      return fmt::format("{:.2f} GB/s", r.rate(seconds(r.summary.median)));
    };
  };
  const auto stream = [&](StreamStores s) {
    return rate([s](const AdamPair& p) { return stream_seconds(p, s); });
  };
  row("AdamW", rate([](const AdamPair& p) { return p.adamw; }));
  row("stream", stream(StreamStores::temporal));
  row("stream, non-temporal stores", stream(StreamStores::non_temporal));
  row("AdamW over the faster stream",
      [](const Result& r) { return fmt::format("{:.3f}", r.summary.fraction); });
  row("  least, most of a pair",
      [](const Result& r) { return fmt::format("{:.3f}, {:.3f}", r.least(), r.most()); });
  row("stream that prefetches as AdamW", stream(StreamStores::prefetched));
  row("AdamW over that",
      [](const Result& r) { return fmt::format("{:.3f}", r.summary.prefetched_fraction); });
  row("CPUs others took", [](const Result& r) {
    return r.others_share ? fmt::format("{:.1f} %", 100 * *r.others_share) : std::string("-");
  });
  return aligned_table(rows);
}

}  // namespace

AdamSummary summarize(std::span<const AdamPair> pairs) {
  const auto median_of = [&](auto&& value) {
    std::vector<double> all;
    for (const AdamPair& p : pairs) all.push_back(value(p));
    return median(all);
  };
  AdamSummary r;
  r.median.adamw = median_of([](const AdamPair& p) { return p.adamw; });
  for (size_t s = 0; s < kernels::kStreamStores; ++s) {
    r.median.stream[s] = median_of([s](const AdamPair& p) { return p.stream[s]; });
  }
  if (stream_seconds(r.median, StreamStores::non_temporal) <
      stream_seconds(r.median, StreamStores::temporal)) {
    r.faster = StreamStores::non_temporal;
  }
  for (const AdamPair& p : pairs) r.fractions.push_back(stream_seconds(p, r.faster) / p.adamw);
  r.fraction = median(r.fractions);
  r.prefetched_fraction = median_of(
      [](const AdamPair& p) { return stream_seconds(p, StreamStores::prefetched) / p.adamw; });
  return r;
}

int run_bench_adam(const BenchAdamArgs& given) {
  BenchAdamArgs a = given;
  if (a.threads == 0) a.threads = default_threads();
  const uint64_t needed = elems_of(a.bytes, DType::f32) * state_bytes(DType::f32);
  if (const size_t available = available_host_memory(); needed > available) {
    throw DoesNotFit(
        fmt::format("bench adam: arrays of {} do not fit the {} that are available; "
                    "lower --bytes",
                    format_bytes(needed), format_bytes(available)));
  }
  Output out(a.json);
  ThreadPool pool(a.threads);
  out.text(fmt::format("AdamW over {} of arrays, {} thread{}, {}, {} pair{}", format_bytes(a.bytes),
                       a.threads, a.threads == 1 ? "" : "s", kernels::isa_name(), a.pairs,
                       a.pairs == 1 ? "" : "s"));
  const Result fp32 = measure(a, DType::f32, pool);
  const Result bf16 = measure(a, DType::bf16, pool);
  out.text(table(fp32, bf16));
  const double others = std::max(fp32.others_share.value_or(0), bf16.others_share.value_or(0));
  if (others > kNoisyShare) out.text(noise_warning(others));
  const Json j = {{"fraction_fp32", fp32.summary.fraction},
                  {"fraction_bf16", bf16.summary.fraction},
                  {"threads", a.threads},
                  {"pairs", a.pairs},
                  {"isa", kernels::isa_name()},
                  {"others_share_max", others},
                  {"fp32", result_json(fp32)},
                  {"bf16", result_json(bf16)}};
  out.result(j.dump());
  return 0;
}

}  // namespace strata
