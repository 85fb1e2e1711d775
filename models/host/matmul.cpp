#include "models/host/matmul.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "models/host/matmul_plain.hpp"
#include "models/host/matmul_widened.hpp"
#include "runtime/errors.hpp"

namespace strata::host {

namespace {

constexpr const char* kPlainImplementation = "plain";

std::string describe(const MatmulShape& s) {
  return fmt::format("matmul {}x{}x{} (m, n, k), ld {} {} {}, {}{}, {} -> {}", s.m, s.n, s.k, s.lda,
                     s.ldb, s.ldc, s.transpose_a ? "T" : "N", s.transpose_b ? "T" : "N",
                     name_of(s.in), name_of(s.out));
}

void check(const MatmulShape& s) {
  const bool ok = s.m > 0 && s.n > 0 && s.k > 0 && s.lda >= (s.transpose_a ? s.m : s.k) &&
                  (s.packed_b || s.ldb >= (s.transpose_b ? s.k : s.n)) && s.ldc >= s.n &&
                  !(s.in == DType::f32 && s.out == DType::bf16);
  if (!ok) {
    throw ConfigError(describe(s) +
                      ": sizes must be positive, leading dimensions cover a row, and fp32 operands "
                      "give an fp32 result");
  }
}

}  // namespace

const Matmul& matmul(const MatmulShape& shape) {
  // Never destroyed: pool threads may still hold handles when static destructors run.
  static auto& cache = *new std::map<MatmulShape, std::unique_ptr<Matmul>, std::less<>>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  if (const auto it = cache.find(shape); it != cache.end()) return *it->second;
  return *cache.emplace(shape, std::make_unique<Matmul>(shape)).first->second;
}

}  // namespace strata::host

#if defined(STRATA_PLAIN_GEMM)

namespace strata::host {

struct Matmul::Impl {};

Matmul::Matmul(const MatmulShape& shape)
    : shape_(shape),
      scratch_bytes_(plain_matmul_scratch_bytes(shape)),
      implementation_(kPlainImplementation) {
  check(shape);
}

Matmul::~Matmul() = default;

void Matmul::run(const void* a, const void* b, void* c, void* scratch) const {
  plain_matmul(shape_, a, b, c, static_cast<float*>(scratch));
}

bool matmul_takes_packed(const MatmulShape&) { return true; }

bool matmul_widens_bf16() { return false; }

std::string matmul_library() { return kPlainImplementation; }

}  // namespace strata::host

#else

#include <omp.h>

#include <array>
#include <atomic>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace strata::host {

namespace {

using dnnl::memory;

dnnl::engine& engine() {
  static auto& e = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return e;
}

/// The library asks OpenMP how many threads to use, when it prepares and when it runs; with one it
/// never starts a team, so none of its threads spins between calls.
void use_one_thread() {
  thread_local const bool done = [] {
    omp_set_num_threads(1);
    return true;
  }();
  (void)done;
}

memory::data_type type_of(DType t) {
  return t == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
}

memory::desc matrix(int64_t rows, int64_t cols, int64_t ld, bool transposed, DType t) {
  const memory::dims strides = transposed ? memory::dims{1, ld} : memory::dims{ld, 1};
  return memory::desc({rows, cols}, type_of(t), strides);
}

/// B in the blocks of gemm_pack.hpp. The library must be asked for its own choice and the answer
/// compared: given this order in so many words, 2.6 falls back to its slow reference code.
bool is_packed_order(const memory::desc& b, const MatmulShape& s) {
  return b == memory::desc({s.k, s.n}, type_of(s.in),
                           s.in == DType::f32 ? memory::format_tag::BA16a64b
                                              : memory::format_tag::BA16a64b2a);
}

memory::desc weights(const MatmulShape& s) {
  if (s.packed_b) return memory::desc({s.k, s.n}, type_of(s.in), memory::format_tag::any);
  return matrix(s.k, s.n, s.ldb, s.transpose_b, s.in);
}

dnnl::matmul::primitive_desc make_desc(const memory::desc& a, const memory::desc& b,
                                       const memory::desc& c, const dnnl::primitive_attr& attr) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(engine(), a, b, c, attr);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attr, engine());
#endif
}

/// Handles of one thread for one Matmul; data pointers are set on each call.
struct Handles {
  memory a, b, c, scratch;
  std::array<dnnl_exec_arg_t, 4> args{};
};

struct ThreadState {
  dnnl::stream stream{engine()};
  std::vector<std::unique_ptr<Handles>> handles;  // by Impl::id
};

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

}  // namespace

struct Matmul::Impl {
  dnnl::matmul::primitive_desc desc;
  dnnl::matmul primitive;
  size_t id = 0;  // never reused

  std::unique_ptr<Handles> make_handles() const {
    auto h = std::make_unique<Handles>();
    h->a = memory(desc.src_desc(), engine(), nullptr);
    h->b = memory(desc.weights_desc(), engine(), nullptr);
    h->c = memory(desc.dst_desc(), engine(), nullptr);
    h->scratch = memory(desc.scratchpad_desc(), engine(), nullptr);
    h->args = {{{DNNL_ARG_SRC, h->a.get()},
                {DNNL_ARG_WEIGHTS, h->b.get()},
                {DNNL_ARG_DST, h->c.get()},
                {DNNL_ARG_SCRATCHPAD, h->scratch.get()}}};
    return h;
  }
};

Matmul::Matmul(const MatmulShape& shape) : shape_(shape), impl_(std::make_unique<Impl>()) {
  check(shape);
  use_one_thread();
  static std::atomic<size_t> next_id{0};
  impl_->id = next_id.fetch_add(1);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops post;
#if DNNL_VERSION_MAJOR >= 3
  if (shape.scale != 1.0f) {
    post.append_eltwise(dnnl::algorithm::eltwise_linear, shape.scale, 0.0f);
  }
#else
  if (shape.scale != 1.0f) attr.set_output_scales(0, {shape.scale});
#endif
  if (shape.accumulate) post.append_sum(1.0f);
  attr.set_post_ops(post);
  const auto a = matrix(shape.m, shape.k, shape.lda, shape.transpose_a, shape.in);
  const auto c = matrix(shape.m, shape.n, shape.ldc, false, shape.out);
  try {
    impl_->desc = make_desc(a, weights(shape), c, attr);
    impl_->primitive = dnnl::matmul(impl_->desc);
  } catch (const dnnl::error&) {
    impl_.reset();
    if (shape.in == DType::bf16 && !shape.packed_b) {
      widened_ = std::make_unique<WidenedMatmul>(shape);
      scratch_bytes_ = widened_->scratch_bytes();
      implementation_ = "widened " + widened_->implementation();
      return;
    }
    scratch_bytes_ = plain_matmul_scratch_bytes(shape);
    implementation_ = kPlainImplementation;
    return;
  }
  if (shape.packed_b && !is_packed_order(impl_->desc.weights_desc(), shape)) {
    throw ConfigError(describe(shape) +
                      ": oneDNN wants another packed order here; ask "
                      "matmul_takes_packed first");
  }
  scratch_bytes_ = impl_->desc.scratchpad_desc().get_size();
  implementation_ = impl_->desc.impl_info_str();
}

Matmul::~Matmul() = default;

void Matmul::run(const void* a, const void* b, void* c, void* scratch) const {
  if (widened_) return widened_->run(a, b, c, scratch);
  if (!impl_) return plain_matmul(shape_, a, b, c, static_cast<float*>(scratch));
  use_one_thread();
  ThreadState& t = thread_state();
  if (t.handles.size() <= impl_->id) t.handles.resize(impl_->id + 1);
  if (!t.handles[impl_->id]) t.handles[impl_->id] = impl_->make_handles();
  Handles& h = *t.handles[impl_->id];
  const std::array<void*, 4> data = {const_cast<void*>(a), const_cast<void*>(b), c, scratch};
  dnnl_status_t status = dnnl_success;
  for (size_t i = 0; i < data.size() && status == dnnl_success; ++i) {
    status = dnnl_memory_set_data_handle(h.args[i].memory, data[i]);
  }
  if (status == dnnl_success) {
    status = dnnl_primitive_execute(impl_->primitive.get(), t.stream.get(),
                                    static_cast<int>(h.args.size()), h.args.data());
  }
  if (status != dnnl_success) {
    throw StateError(fmt::format("{}: oneDNN failed with status {}", describe(shape_),
                                 static_cast<int>(status)));
  }
}

bool matmul_takes_packed(const MatmulShape& shape) {
  use_one_thread();
  MatmulShape s = shape;
  s.packed_b = true;
  const auto a = matrix(s.m, s.k, s.lda, s.transpose_a, s.in);
  const auto c = matrix(s.m, s.n, s.ldc, false, s.out);
  try {
    return is_packed_order(make_desc(a, weights(s), c, {}).weights_desc(), s);
  } catch (const dnnl::error&) {
    return false;
  }
}

bool matmul_widens_bf16() {
  static const bool widens = [] {
    const Matmul any(
        {.m = 64, .n = 64, .k = 64, .lda = 64, .ldb = 64, .ldc = 64, .in = DType::bf16});
    return any.implementation().starts_with("widened");
  }();
  return widens;
}

std::string matmul_library() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace strata::host

#endif
