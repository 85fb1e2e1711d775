// Tensors and comparisons for tests of the CPU kernels against references in double.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "runtime/dtype.hpp"

namespace strata::testing {

/// Memory at a 64-byte boundary with a guard behind it that `intact` checks.
class Buffer {
 public:
  explicit Buffer(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(::operator new (bytes + kGuard, std::align_val_t{64}))) {
    std::memset(data_.get(), 0xff, bytes);  // NaN, or a token of -1: reading it shows
    std::memset(data_.get() + bytes, 0x5a, kGuard);
  }
  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }
  bool intact() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (data_.get()[bytes_ + i] != std::byte{0x5a}) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

/// A tensor of a given type, with its exact values in double for the reference.
class Tensor {
 public:
  Tensor(DType t, size_t elems) : type_(t), elems_(elems), buffer_(elems * size_of(t)) {}

  /// Uniform values in [-range, range], rounded to the type.
  static Tensor random(DType t, size_t elems, uint64_t seed, double range = 1.0) {
    Tensor x(t, elems);
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < elems; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double unit = static_cast<double>(state >> 11) * 0x1p-53;
      x.set(i, static_cast<float>((2 * unit - 1) * range));
    }
    return x;
  }

  DType type() const { return type_; }
  size_t size() const { return elems_; }
  void* data() const { return buffer_.data(); }
  float* floats() const { return reinterpret_cast<float*>(buffer_.data()); }
  bool intact() const { return buffer_.intact(); }

  double at(size_t i) const {
    if (type_ == DType::f32) return floats()[i];
    return to_float(reinterpret_cast<const Bf16*>(buffer_.data())[i]);
  }
  void set(size_t i, float v) {
    if (type_ == DType::f32) {
      floats()[i] = v;
    } else {
      reinterpret_cast<Bf16*>(buffer_.data())[i] = to_bf16(v);
    }
  }
  std::vector<double> values() const {
    std::vector<double> v(elems_);
    for (size_t i = 0; i < elems_; ++i) v[i] = at(i);
    return v;
  }
  std::string bytes() const {
    return {reinterpret_cast<const char*>(buffer_.data()), buffer_.bytes()};
  }

 private:
  DType type_;
  size_t elems_;
  Buffer buffer_;
};

/// Norm of the difference over the norm of the reference; infinity when anything is not finite.
inline double relative_error(const Tensor& x, const std::vector<double>& reference) {
  double diff = 0, norm = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    if (!std::isfinite(x.at(i))) return INFINITY;
    diff += (x.at(i) - reference[i]) * (x.at(i) - reference[i]);
    norm += reference[i] * reference[i];
  }
  return std::sqrt(diff / (norm + 1e-300));
}

/// What rounding the result to the type costs at least, times a few.
inline double tolerance(DType t) { return t == DType::f32 ? 1e-6 : 4e-3; }

}  // namespace strata::testing
