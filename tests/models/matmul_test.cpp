#include "models/host/matmul.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "models/host/matmul_plain.hpp"
#include "runtime/errors.hpp"
#include "tests/models/aligned_buffer.hpp"

namespace strata::host {
namespace {

using Buffer = testing::AlignedBuffer;
Buffer buffer(size_t bytes) { return testing::aligned_buffer(bytes); }

float value_at(uint64_t i, uint64_t salt) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u + salt * 0xbf58476d1ce4e5b9u;
  x ^= x >> 31;
  x *= 0x94d049bb133111ebu;
  return static_cast<float>(static_cast<int>((x >> 40) & 255) - 128) / 128.0f;
}

struct Matrix {
  DType type;
  std::vector<float> values;
  Buffer bytes;

  Matrix(int64_t count, DType t, uint64_t salt)
      : type(t), values(count), bytes(buffer(count * size_of(t))) {
    for (int64_t i = 0; i < count; ++i) set(i, value_at(i, salt));
  }
  void set(int64_t i, float x) {
    values[i] = x;
    if (type == DType::f32) {
      reinterpret_cast<float*>(bytes.get())[i] = x;
    } else {
      reinterpret_cast<Bf16*>(bytes.get())[i] = to_bf16(x);
    }
  }
  float get(int64_t i) const {
    return type == DType::f32 ? reinterpret_cast<const float*>(bytes.get())[i]
                              : to_float(reinterpret_cast<const Bf16*>(bytes.get())[i]);
  }
};

struct Problem {
  MatmulShape s;
  Matrix a, b, c;
  explicit Problem(const MatmulShape& shape)
      : s(shape),
        a((s.transpose_a ? s.k : s.m) * s.lda, s.in, 1),
        b((s.transpose_b ? s.n : s.k) * s.ldb, s.in, 2),
        c(s.m * s.ldc, s.out, 3) {}

  // Sums of at most 2^14 products of multiples of 2^-7 below 1 are exact in fp32.
  void expect_exact() const {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.ldc; ++j) {
        float want = c.values[i * s.ldc + j];
        if (j < s.n) {
          float sum = 0;
          for (int64_t p = 0; p < s.k; ++p) {
            sum += a.values[s.transpose_a ? p * s.lda + i : i * s.lda + p] *
                   b.values[s.transpose_b ? j * s.ldb + p : p * s.ldb + j];
          }
          want = s.scale * sum + (s.accumulate ? want : 0.0f);
          if (s.out == DType::bf16) want = to_float(to_bf16(want));
        }
        ASSERT_EQ(c.get(i * s.ldc + j), want) << "row " << i << " column " << j;
      }
    }
  }
};

template <class Run>
void for_each_shape(Run run) {
  for (const auto& [in, out] :
       {std::pair{DType::f32, DType::f32}, std::pair{DType::bf16, DType::f32},
        std::pair{DType::bf16, DType::bf16}}) {
    for (const int transposes : {0, 1, 2, 3}) {
      for (const bool accumulate : {false, true}) {
        for (const float scale : {1.0f, 0.25f}) {
          MatmulShape s{.m = 37, .n = 291, .k = 133, .ldc = 300, .in = in, .out = out};
          s.transpose_a = (transposes & 1) != 0;
          s.transpose_b = (transposes & 2) != 0;
          s.lda = (s.transpose_a ? s.m : s.k) + 11;
          s.ldb = (s.transpose_b ? s.k : s.n) + 5;
          s.accumulate = accumulate;
          s.scale = scale;
          SCOPED_TRACE(::testing::Message()
                       << name_of(in) << " to " << name_of(out) << " transposes " << transposes
                       << " accumulate " << accumulate << " scale " << scale);
          run(s);
        }
      }
    }
  }
}

TEST(Matmul, EqualsExactProduct) {
  for_each_shape([](const MatmulShape& s) {
    Problem p(s);
    const Matmul& m = matmul(s);
    const auto scratch = buffer(m.scratch_bytes());
    m.run(p.a.bytes.get(), p.b.bytes.get(), p.c.bytes.get(), scratch.get());
    p.expect_exact();
  });
}

TEST(Matmul, PlainFallbackEqualsExactProduct) {
  for_each_shape([](const MatmulShape& s) {
    Problem p(s);
    const auto scratch = buffer(plain_matmul_scratch_bytes(s));
    plain_matmul(s, p.a.bytes.get(), p.b.bytes.get(), p.c.bytes.get(),
                 reinterpret_cast<float*>(scratch.get()));
    p.expect_exact();
  });
}

TEST(Matmul, CachedByShape) {
  const MatmulShape s{.m = 8, .n = 16, .k = 8, .lda = 8, .ldb = 16, .ldc = 16};
  EXPECT_EQ(&matmul(s), &matmul(s));
  MatmulShape other = s;
  other.accumulate = true;
  EXPECT_NE(&matmul(s), &matmul(other));
  EXPECT_FALSE(matmul(s).implementation().empty());
  EXPECT_FALSE(matmul_library().empty());
}

TEST(Matmul, OneObjectRunsOnSeveralThreads) {
  const MatmulShape s{.m = 64, .n = 96, .k = 48, .lda = 48, .ldb = 96, .ldc = 96};
  const Matmul& m = matmul(s);
  std::vector<std::unique_ptr<Problem>> problems;
  for (int i = 0; i < 3; ++i) problems.push_back(std::make_unique<Problem>(s));
  // Different operands per thread: a shared handle would mix them up.
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < s.m * s.lda; ++j) problems[i]->a.set(j, value_at(j, 10 + i));
  }
  std::vector<std::thread> threads;
  for (auto& p : problems) {
    threads.emplace_back([&m, &p = *p] {
      const auto scratch = buffer(m.scratch_bytes());
      for (int r = 0; r < 200; ++r) {
        m.run(p.a.bytes.get(), p.b.bytes.get(), p.c.bytes.get(), scratch.get());
      }
    });
  }
  for (auto& t : threads) t.join();
  for (const auto& p : problems) p->expect_exact();
}

TEST(Matmul, RefusesBadShapes) {
  EXPECT_THROW(Matmul({.m = 0, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1}), ConfigError);
  EXPECT_THROW(Matmul({.m = 2, .n = 2, .k = 4, .lda = 3, .ldb = 2, .ldc = 2}), ConfigError);
  EXPECT_THROW(Matmul({.m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1, .out = DType::bf16}),
               ConfigError);
}

}  // namespace
}  // namespace strata::host
