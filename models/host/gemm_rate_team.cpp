#include "models/host/gemm_rate.hpp"
#include "runtime/errors.hpp"

#if defined(STRATA_PLAIN_GEMM)

namespace strata::host {

std::unique_ptr<GemmRate> make_team_gemm_rate(std::vector<GemmProduct>, DType, uint32_t) {
  throw ConfigError(
      "this build multiplies matrices with plain loops and has no library to compare with; build "
      "with STRATA_PLAIN_GEMM=OFF");
}

}  // namespace strata::host

#else

#include <fmt/format.h>
#include <omp.h>

#include <map>
#include <oneapi/dnnl/dnnl.hpp>

namespace strata::host {

namespace {

using dnnl::memory;

class TeamGemmRate final : public GemmRate {
 public:
  TeamGemmRate(std::vector<GemmProduct> products, DType dtype, uint32_t threads)
      : GemmRate(std::move(products), dtype) {
    // The library reads it when it prepares a product and again when it runs it.
    omp_set_dynamic(0);
    omp_set_num_threads(static_cast<int>(threads));
  }

 private:
  struct Prepared {
    dnnl::matmul::primitive_desc desc;
    dnnl::matmul primitive;
  };

  memory::data_type type() const {
    return dtype() == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
  }

  memory::desc matrix(int64_t rows, int64_t cols, bool transposed) const {
    const memory::dims strides = transposed ? memory::dims{1, rows} : memory::dims{cols, 1};
    return memory::desc({rows, cols}, type(), strides);
  }

  memory::desc any(int64_t rows, int64_t cols) const {
    return memory::desc({rows, cols}, type(), memory::format_tag::any);
  }

  dnnl::matmul::primitive_desc make_desc(const memory::desc& a, const memory::desc& b,
                                         const memory::desc& c) const {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
    return dnnl::matmul::primitive_desc(engine_, a, b, c, attr);
#else
    return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attr, engine_);
#endif
  }

  std::optional<Needs> prepare(size_t i, GemmLayout layout) override {
    const GemmProduct& p = products()[i];
    if (layout == GemmLayout::packed_ab && !p.transpose_a) return std::nullopt;
    const auto a =
        layout == GemmLayout::packed_ab ? any(p.m, p.k) : matrix(p.m, p.k, p.transpose_a);
    const auto b = layout == GemmLayout::plain ? matrix(p.k, p.n, p.transpose_b) : any(p.k, p.n);
    try {
      Prepared ready{make_desc(a, b, matrix(p.m, p.n, false)), {}};
      ready.primitive = dnnl::matmul(ready.desc);
      const Needs needs{ready.desc.src_desc().get_size(), ready.desc.weights_desc().get_size(),
                        ready.desc.dst_desc().get_size(), ready.desc.scratchpad_desc().get_size()};
      prepared_[{i, layout}] = std::move(ready);
      return needs;
    } catch (const dnnl::error& e) {
      if (layout != GemmLayout::plain) return std::nullopt;
      throw ConfigError(fmt::format(
          "product '{}' ({}x{}x{}, {}): oneDNN refused it ({}); bf16 needs AVX-512 or later, try "
          "--dtype fp32",
          p.name, p.m, p.n, p.k, name_of(dtype()), e.what()));
    }
  }

  void run(size_t i, GemmLayout layout, const Memory& m) override {
    const Prepared& p = prepared_.at({i, layout});
    const auto at = [&](const memory::desc& d, std::byte* base) {
      return memory(d, engine_, base);
    };
    p.primitive.execute(stream_, {{DNNL_ARG_SRC, at(p.desc.src_desc(), m.a)},
                                  {DNNL_ARG_WEIGHTS, at(p.desc.weights_desc(), m.b)},
                                  {DNNL_ARG_DST, at(p.desc.dst_desc(), m.c)},
                                  {DNNL_ARG_SCRATCHPAD, at(p.desc.scratchpad_desc(), m.scratch)}});
    stream_.wait();
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<std::pair<size_t, GemmLayout>, Prepared> prepared_;
};

}  // namespace

std::unique_ptr<GemmRate> make_team_gemm_rate(std::vector<GemmProduct> products, DType dtype,
                                              uint32_t threads) {
  return std::make_unique<TeamGemmRate>(std::move(products), dtype, threads);
}

}  // namespace strata::host

#endif
