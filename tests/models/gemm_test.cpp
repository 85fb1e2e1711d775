#include "models/host/gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "models/host/activation.hpp"
#include "models/host/gemm_pack.hpp"
#include "runtime/errors.hpp"
#include "tests/models/aligned_buffer.hpp"

namespace strata::host {
namespace {

using Buffer = testing::AlignedBuffer;
Buffer buffer(size_t bytes) { return testing::aligned_buffer(bytes, 4096); }

/// A matrix of either type; `shift` moves its first element by whole cache lines.
struct Matrix {
  DType type;
  size_t count;
  Buffer bytes;
  std::byte* data;

  Matrix(int64_t n, DType t, size_t shift = 0)
      : type(t), count(n), bytes(buffer(n * size_of(t))), data(bytes.get() + 64 * shift) {
    std::memset(data, 0, count * size_of(t));
  }
  float get(int64_t i) const {
    return type == DType::f32 ? reinterpret_cast<const float*>(data)[i]
                              : to_float(reinterpret_cast<const Bf16*>(data)[i]);
  }
  void set(int64_t i, float x) {
    if (type == DType::f32) {
      reinterpret_cast<float*>(data)[i] = x;
    } else {
      reinterpret_cast<Bf16*>(data)[i] = to_bf16(x);
    }
  }
  /// Small multiples of 1/16: sums of a few thousand products are exact in fp32.
  void fill_exact(uint32_t seed) {
    std::mt19937 random(seed);
    for (size_t i = 0; i < count; ++i) set(i, static_cast<float>(random() % 33) / 16.0f - 1.0f);
  }
  void fill_normal(uint32_t seed) {
    std::mt19937 random(seed);
    for (size_t i = 0; i < count; ++i) set(i, static_cast<float>(random() % 65536) / 32768.0f - 1);
  }
  std::vector<std::byte> copy() const { return {data, data + count * size_of(type)}; }
};

struct Problem {
  GemmShape s;
  Matrix a, b, c, bias, residual, saved, activation;

  explicit Problem(GemmShape shape, size_t shift = 0)
      : s(dense(shape)),
        a((s.transpose_a ? s.k : s.m) * s.lda, s.in, shift),
        b((s.transpose_b ? s.n : s.k) * s.ldb, s.in, shift),
        c(s.m * s.ldc, s.out, shift),
        bias(s.n, s.out, shift),
        residual(s.m * s.ldc, s.out, shift),
        saved(s.m * s.ldc, s.out, shift),
        activation(s.m * s.ldc, s.out, shift) {}

  static GemmShape dense(GemmShape s) {
    if (s.lda == 0) s.lda = s.transpose_a ? s.m : s.k;
    if (s.ldb == 0) s.ldb = s.transpose_b ? s.k : s.n;
    if (s.ldc == 0) s.ldc = s.n;
    return s;
  }
  template <class Fill>
  void fill(Fill f) {
    uint32_t seed = 0;
    for (Matrix* x : {&a, &b, &c, &bias, &residual, &saved, &activation}) (x->*f)(++seed);
  }
  void run(const Gemm& gemm, ThreadPool& pool) {
    const size_t bytes = gemm.scratch_bytes(pool.threads());
    const Buffer scratch = buffer(bytes);
    // Whatever was left there must not matter.
    std::memset(scratch.get(), 0xff, bytes);
    gemm.run(pool,
             {.a = a.data,
              .b = b.data,
              .c = c.data,
              .bias = bias.data,
              .residual = residual.data,
              .saved = saved.data,
              .activation = activation.data},
             {scratch.get(), bytes});
  }
  float product(int64_t i, int64_t j) const {
    float sum = 0;
    for (int64_t p = 0; p < s.k; ++p) {
      sum += a.get(s.transpose_a ? p * s.lda + i : i * s.lda + p) *
             b.get(s.transpose_b ? j * s.ldb + p : p * s.ldb + j);
    }
    return sum;
  }
  float rounded(float x) const { return s.out == DType::f32 ? x : to_float(to_bf16(x)); }

  /// Runs and compares with exact products; what lies between rows must stay as it was.
  void expect_exact(const Gemm& gemm, ThreadPool& pool) {
    fill(&Matrix::fill_exact);
    const Matrix before(c.count, s.out);
    std::memcpy(before.data, c.data, c.count * size_of(s.out));
    run(gemm, pool);
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.ldc; ++j) {
        const int64_t at = i * s.ldc + j;
        float want = before.get(at);
        if (j < s.n) {
          want = product(i, j);
          if (s.epilogue == Epilogue::bias || s.epilogue == Epilogue::bias_gelu)
            want += bias.get(j);
          if (s.epilogue == Epilogue::bias_residual) want += bias.get(j) + residual.get(at);
          want = rounded(want);
        }
        ASSERT_EQ(c.get(at), want) << "row " << i << " column " << j;
      }
    }
  }
};

constexpr std::pair<DType, DType> kTypes[] = {
    {DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}};

/// Runs f(shape) for every pair of types and transposes of a shape, dense and strided.
template <class F>
void for_each_variant(GemmShape s, F f) {
  for (const auto& [in, out] : kTypes) {
    for (const int transposes : {0, 1, 2, 3}) {
      for (const int64_t gap : {0, 7}) {
        s.in = in;
        s.out = out;
        s.transpose_a = (transposes & 1) != 0;
        s.transpose_b = (transposes & 2) != 0;
        s.lda = (s.transpose_a ? s.m : s.k) + gap;
        s.ldb = (s.transpose_b ? s.k : s.n) + gap;
        s.ldc = s.n + gap;
        SCOPED_TRACE(::testing::Message()
                     << s.m << "x" << s.n << "x" << s.k << " " << name_of(in) << " to "
                     << name_of(out) << " transposes " << transposes << " gap " << gap);
        f(s);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Gemm, EqualsExactProductUnpacked) {
  ThreadPool pool(2);
  for_each_variant({.m = 19, .n = 41, .k = 37}, [&](const GemmShape& s) {
    const Gemm gemm(s);
    EXPECT_FALSE(gemm.tiles().packed);
    Problem(s).expect_exact(gemm, pool);
  });
}

TEST(Gemm, EqualsExactProductPacked) {
  ThreadPool pool(2);
  // Rests in every dimension; the rest of 64 columns joins its neighbour, and k is odd.
  for_each_variant({.m = 75, .n = 150, .k = 131}, [&](const GemmShape& s) {
    Problem(s).expect_exact(Gemm(s, {.m = 32, .n = 128, .k = 4096, .packed = true}), pool);
  });
}

TEST(Gemm, AddsChunksOfK) {
  ThreadPool pool(2);
  for_each_variant({.m = 70, .n = 200, .k = 211}, [&](const GemmShape& s) {
    Problem(s).expect_exact(Gemm(s, {.m = 64, .n = 64, .k = 64, .packed = true}), pool);
  });
}

TEST(Gemm, PacksRowsOfAWhereTheyAreUsed) {
  ThreadPool pool(3);
  for (const int64_t k : {64, 4096}) {
    for_each_variant({.m = 70, .n = 200, .k = 211}, [&](const GemmShape& s) {
      const GemmTiles tiles{.m = 32, .n = 64, .k = k, .packed = true, .local_a = true};
      Problem(s).expect_exact(Gemm(s, tiles), pool);
    });
  }
}

TEST(Gemm, StreamsPastTheCaches) {
  ThreadPool pool(2);
  for (const auto& [in, out] : kTypes) {
    for (const int64_t n : {64, 640, 1100}) {  // the last has a rest
      GemmShape s{.m = 66, .n = n, .k = 70, .transpose_a = true, .in = in, .out = out};
      s.stream_c = true;
      Problem(s).expect_exact(Gemm(s), pool);
    }
  }
}

TEST(Gemm, TilesOfItsOwnChoice) {
  ThreadPool pool(3);
  for (const GemmShape& base : {GemmShape{.m = 130, .n = 193, .k = 96},
                                {.m = 1, .n = 256, .k = 32},
                                {.m = 64, .n = 64, .k = 64},
                                {.m = 70, .n = 830, .k = 64}}) {
    for_each_variant(base, [&](const GemmShape& s) { Problem(s).expect_exact(Gemm(s), pool); });
  }
}

TEST(Gemm, EpiloguesAddBiasAndResidual) {
  ThreadPool pool(2);
  for (const auto& [in, out] : kTypes) {
    for (const Epilogue e : {Epilogue::bias, Epilogue::bias_residual}) {
      for (const bool packed : {false, true}) {
        const GemmShape s{
            .m = 67, .n = 139, .k = 64, .ldc = 141, .in = in, .out = out, .epilogue = e};
        SCOPED_TRACE(::testing::Message() << name_of(out) << " " << static_cast<int>(e));
        Problem(s).expect_exact(Gemm(s, {.m = 32, .n = 64, .k = 64, .packed = packed}), pool);
      }
    }
  }
}

TEST(Gemm, GeluEpiloguesEqualTheKernels) {
  ThreadPool pool(2);
  for (const auto& [in, out] : {kTypes[0], kTypes[2]}) {
    const GemmShape s{
        .m = 67, .n = 139, .k = 64, .in = in, .out = out, .epilogue = Epilogue::bias_gelu};
    Problem p(s);
    p.expect_exact(Gemm(s), pool);
    Matrix want(p.c.count, out);
    gelu_forward(pool, out, want.data, p.c.data, p.c.count);
    EXPECT_EQ(p.activation.copy(), want.copy());

    GemmShape plain = s;
    plain.out = DType::f32;
    plain.epilogue = Epilogue::none;
    Problem q(plain);
    q.fill(&Matrix::fill_exact);
    q.run(Gemm(plain), pool);
    GemmShape backward = s;
    backward.epilogue = Epilogue::gelu_backward;
    p = Problem(backward);
    p.fill(&Matrix::fill_exact);
    p.run(Gemm(backward), pool);
    // The kernel rounds its operands to the type; the epilogue multiplies the fp32 product.
    Matrix saved(p.c.count, DType::f32), slope(p.c.count, DType::f32);
    for (size_t i = 0; i < p.c.count; ++i) saved.set(i, p.saved.get(i));
    gelu_backward(pool, DType::f32, slope.data, q.c.data, saved.data, p.c.count);
    for (size_t i = 0; i < p.c.count; ++i) ASSERT_EQ(p.c.get(i), p.rounded(slope.get(i))) << i;
  }
}

TEST(Gemm, BitsDoNotDependOnThreadsOrAddresses) {
  for (const GemmShape& base :
       {GemmShape{.m = 200, .n = 515, .k = 300, .epilogue = Epilogue::bias_gelu},
        {.m = 40, .n = 96, .k = 384},
        {.m = 256, .n = 192, .k = 128, .transpose_a = true},
        {.m = 96, .n = 192, .k = 256, .transpose_b = true}}) {
    for (const DType t : {DType::f32, DType::bf16}) {
      GemmShape s = base;
      s.in = s.out = t;
      const Gemm gemm(s);
      std::vector<std::byte> first;
      size_t shift = 0;
      for (const uint32_t threads : {1, 2, 3, 8}) {
        ThreadPool pool(threads);
        Problem p(s, shift++);
        p.fill(&Matrix::fill_normal);
        p.run(gemm, pool);
        const auto bits = p.c.copy();
        if (first.empty()) first = bits;
        EXPECT_EQ(bits, first) << threads << " threads, " << name_of(t);
      }
    }
  }
}

TEST(Gemm, RefusesBadShapesAndSmallScratch) {
  EXPECT_THROW(Gemm({.m = 0, .n = 4, .k = 4}), ConfigError);
  EXPECT_THROW(Gemm({.m = 4, .n = 4, .k = 4, .ldc = 3}), ConfigError);
  EXPECT_THROW(Gemm({.m = 4, .n = 4, .k = 4, .out = DType::bf16}), ConfigError);
  const Gemm gemm({.m = 8, .n = 8, .k = 8});
  ThreadPool pool(2);
  const Buffer scratch = buffer(gemm.scratch_bytes(2));
  EXPECT_THROW(gemm.run(pool, {}, {scratch.get(), gemm.scratch_bytes(1)}), StateError);
}

TEST(GemmPack, TransposesEverySize) {
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const auto& [k, m] : {std::pair<int64_t, int64_t>{1, 1}, {33, 9}, {64, 80}, {65, 71}}) {
      const int64_t lda = m + 3, ldo = k + 2;
      Matrix in(k * lda, t), out(m * ldo, t);
      in.fill_normal(1);
      transpose_a(in.data, lda, m, k, t, out.data, ldo);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t p = 0; p < ldo; ++p) {
          ASSERT_EQ(out.get(i * ldo + p), p < k ? in.get(p * lda + i) : 0.0f) << i << " " << p;
        }
      }
    }
  }
}

TEST(GemmPack, PadsWithZeros) {
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const bool transposed : {false, true}) {
      const int64_t k = 21, n = 70, depth = round_up(k, pack_depth(t));
      Matrix b(k * n, t), packed(packed_b_bytes(k, n, t) / size_of(t), t);
      b.fill_normal(2);
      std::memset(packed.data, 0xff, packed_b_bytes(k, n, t));
      pack_b(b.data, transposed ? k : n, transposed, k, n, t, packed.data, depth);
      for (int64_t j = 0; j < 2 * kPackColumns; ++j) {
        for (int64_t p = 0; p < depth; ++p) {
          const int64_t block = j / kPackColumns * kPackColumns * depth, column = j % kPackColumns;
          const int64_t at = t == DType::f32 ? p * kPackColumns + column
                                             : p / 2 * 2 * kPackColumns + 2 * column + p % 2;
          const float want = p < k && j < n ? b.get(transposed ? j * k + p : p * n + j) : 0.0f;
          ASSERT_EQ(packed.get(block + at), want) << p << " " << j << " " << transposed;
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::host
