#include "cli/machine_probe.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>

#include "cli/bench_step.hpp"  // median
#include "cli/nvme_transfers.hpp"
#include "models/gpt2_config.hpp"
#include "models/host/gemm_rate.hpp"
#include "runtime/errors.hpp"
#include "runtime/files/file_io.hpp"
#include "runtime/host/host_backend.hpp"
#include "runtime/kernels/elementwise.hpp"
#include "runtime/kernels/optimizer.hpp"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

/// Work a second, over whole calls of `work` that take `seconds` or more.
double rate_over(double seconds, double work, const std::function<void()>& run) {
  const auto start = Clock::now();
  double done = 0, took = 0;
  do {
    run();
    done += work;
    took = std::chrono::duration<double>(Clock::now() - start).count();
  } while (took < seconds);
  return done / took;
}

/// Arrays of fp32 in huge pages, written once.
class Arrays {
 public:
  Arrays(size_t count, uint64_t elems)
      : elems_(elems), arena_(allocate_pages(count * elems * 4, "a probe")) {
    std::memset(arena_.base(), 0, arena_.bytes());
  }
  float* operator[](size_t i) { return reinterpret_cast<float*>(arena_.base()) + i * elems_; }

 private:
  uint64_t elems_;
  Arena arena_;
};

class Probe {
 public:
  explicit Probe(const ProbeOptions& o)
      : o_(o), elems_(o.array_bytes / sizeof(float)), backend_(backend_options(o)) {}

  MeasuredRate gemm(DType t) {
    const auto products =
        host::training_products(parse_gpt2(o_.model), uint64_t{o_.batch} * o_.seq);
    const auto rate = host::make_pool_gemm_rate(products, t, o_.threads);
    rate->calibrate(1);
    return sample(
        [&] { return rate->measure(o_.seconds)[static_cast<size_t>(host::GemmPacking::weights)]; });
  }

  /// acc += x: two arrays read, one written.
  MeasuredRate memory() {
    Arrays a(2, elems_);
    return sample([&] {
      return rate_over(o_.seconds, 3.0 * 4 * static_cast<double>(elems_), [&] {
        const ThreadPool::Turn turn(backend_.pool());
        kernels::accumulate(backend_.pool(), a[0], DType::f32, a[1], DType::f32, elems_);
      });
    });
  }

  /// AdamW on fp32: weight, gradient, m and v read, all but the gradient written.
  MeasuredRate update() {
    Arrays a(4, elems_);
    const kernels::AdamWSlice slice{a[0], nullptr, a[1], a[2], a[3], elems_, 0};
    const kernels::StepScale scale{1, 1, 1, 1};
    return sample([&] {
      return rate_over(o_.seconds, 7.0 * 4 * static_cast<double>(elems_), [&] {
        const ThreadPool::Turn turn(backend_.pool());
        kernels::adamw(backend_.pool(), {&slice, 1}, DType::f32, DType::f32,
                       {1e-3, 0.9, 0.999, 1e-8}, &scale);
      });
    });
  }

  MeasuredRate copy(Resource r) {
    Arrays a(2, elems_);
    Stream& stream = backend_.stream(r);
    return sample([&] {
      return rate_over(o_.seconds, 4.0 * static_cast<double>(elems_), [&] {
        stream.copy(a[0], a[1], 4 * elems_);
        backend_.wait(stream.record());
      });
    });
  }

  /// Of a launch that does nothing, seen from its stream.
  double latency() {
    constexpr int kLaunches = 1000;
    Stream& stream = backend_.stream(Resource::compute);
    const MeasuredRate r = sample([&] {
      return rate_over(std::min(0.02, o_.seconds), kLaunches, [&] {
        for (int i = 0; i < kLaunches; ++i) launch_native<nothing, HostContext>(stream, Cost{});
        backend_.wait(stream.record());
      });
    });
    return 1 / r.median;
  }

  void nvme(Machine& m) {
    NvmeOptions n;
    n.directories = o_.nvme;
    n.unit_bytes = o_.block_bytes;
    n.request_bytes = static_cast<uint32_t>(o_.block_bytes);
    n.units = static_cast<uint32_t>(o_.nvme_bytes / o_.block_bytes);
    NvmeTransfers transfers(n);
    const auto rate = [&](TransferMix mix) {
      return sample([&] { return transfers.measure(mix, o_.seconds); });
    };
    m.nvme_read = rate(TransferMix::read);
    m.nvme_write = rate(TransferMix::write);
    m.nvme_mixed = rate(TransferMix::mixed);
  }

 private:
  static void nothing(HostContext&) {}
  static HostBackendOptions backend_options(const ProbeOptions& o) {
    HostBackendOptions b;
    b.threads = o.threads;
    return b;
  }
  MeasuredRate sample(const std::function<double()>& once) const {
    std::vector<double> samples;
    once();  // touches what is touched for the first time
    for (uint32_t i = 0; i < o_.samples; ++i) samples.push_back(once());
    return rate_of(std::move(samples));
  }

  const ProbeOptions& o_;
  uint64_t elems_;
  HostBackend backend_;
};

}  // namespace

MeasuredRate rate_of(std::vector<double> samples) {
  const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
  return {median(samples), *least, *most};
}

Machine probe_machine(const ProbeOptions& o, const std::function<void(const char*)>& say) {
  Probe probe(o);
  Machine m;
  m.name = fmt::format("{} threads of this machine", o.threads);
  m.note = fmt::format("strata probe --model {} --seq {} --batch {}", o.model, o.seq, o.batch);
  m.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  m.threads = o.threads;
  m.one_processor = true;
  say("matrix products");
  m.gemm_fp32 = probe.gemm(DType::f32);
  m.gemm_bf16 = probe.gemm(DType::bf16);
  say("memory and updates");
  m.memory = probe.memory();
  m.update = probe.update();
  say("copies and launches");
  m.h2d = probe.copy(Resource::h2d);
  m.d2h = probe.copy(Resource::d2h);
  m.latency_seconds = probe.latency();
  if (!o.nvme.empty()) {
    say("NVMe");
    probe.nvme(m);
  }
  return m;
}

Machine load_machine(const std::string& path) {
  return read_machine(read_text(real_files(), path, 1 << 20), path);
}

}  // namespace strata
