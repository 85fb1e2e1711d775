#include "models/host/gemm_epilogue.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/host/gemm_epilogue.cpp"
#include <hwy/foreach_target.h>
// Highway's own headers come after foreach_target.h.
#include <hwy/highway.h>

#include "models/host/gelu-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::host::HWY_NAMESPACE {
namespace {

/// Columns [j, n) in whole vectors of D; returns where it stopped. Pointers are to the row.
template <Epilogue kEpilogue, class D, class T>
HWY_INLINE size_t lanes(D d, const TileOutput& t, size_t row, size_t j, size_t n) {
  const size_t at = row * static_cast<size_t>(t.ldc);
  const float* x = t.x + row * static_cast<size_t>(t.ldx);
  T* c = static_cast<T*>(t.c) + at;
  const size_t step = hn::Lanes(d);
  for (; j + step <= n; j += step) {
    auto v = hn::LoadU(d, x + j);
    if constexpr (kEpilogue == Epilogue::bias || kEpilogue == Epilogue::bias_gelu ||
                  kEpilogue == Epilogue::bias_residual) {
      v = hn::Add(v, load(d, static_cast<const T*>(t.bias) + j));
    }
    if constexpr (kEpilogue == Epilogue::bias_residual) {
      v = hn::Add(v, load(d, static_cast<const T*>(t.residual) + at + j));
    }
    if constexpr (kEpilogue == Epilogue::gelu_backward) {
      v = hn::Mul(v, gelu_slope(d, load(d, static_cast<const T*>(t.saved) + at + j)));
    }
    store(d, v, c + j);
    if constexpr (kEpilogue == Epilogue::bias_gelu) {
      store(d, gelu(d, load(d, c + j)), static_cast<T*>(t.activation) + at + j);
    }
  }
  return j;
}

template <Epilogue kEpilogue, class T>
void rows(const TileOutput& t) {
  const auto n = static_cast<size_t>(t.cols);
  for (size_t i = 0; i < static_cast<size_t>(t.rows); ++i) {
    const size_t j = lanes<kEpilogue, Full, T>(Full(), t, i, 0, n);
    lanes<kEpilogue, One, T>(One(), t, i, j, n);
  }
}

/// Epilogue::none past the caches: a row at a time is converted nearby and copied in whole lines.
template <class T>
void stream_rows(const TileOutput& t) {
  constexpr size_t kPart = 512;
  alignas(64) T part[kPart];
  const hn::ScalableTag<uint8_t> d8;
  const size_t step = hn::Lanes(d8);
  const auto n = static_cast<size_t>(t.cols);
  for (size_t i = 0; i < static_cast<size_t>(t.rows); ++i) {
    for (size_t j = 0; j < n; j += kPart) {
      TileOutput p = t;
      p.x = t.x + i * static_cast<size_t>(t.ldx) + j;
      p.c = part;
      const size_t count = HWY_MIN(kPart, n - j);
      lanes<Epilogue::none, One, T>(One(), p, 0,
                                    lanes<Epilogue::none, Full, T>(Full(), p, 0, 0, count), count);
      const auto* from = reinterpret_cast<const uint8_t*>(part);
      auto* to =
          reinterpret_cast<uint8_t*>(static_cast<T*>(t.c) + i * static_cast<size_t>(t.ldc) + j);
      for (size_t b = 0; b < count * sizeof(T); b += step) {
        hn::Stream(hn::Load(d8, from + b), d8, to + b);
      }
    }
  }
  hwy::FlushStream();
}

/// Whole aligned vectors, and nothing else.
template <class T>
bool streams(const TileOutput& t) {
  const size_t vector = hn::Lanes(hn::ScalableTag<uint8_t>());
  return t.stream_c && reinterpret_cast<uintptr_t>(t.c) % vector == 0 &&
         static_cast<size_t>(t.ldc) * sizeof(T) % vector == 0 &&
         static_cast<size_t>(t.cols) * sizeof(T) % vector == 0;
}

template <class T>
void dispatch(const TileOutput& t) {
  switch (t.epilogue) {
    case Epilogue::none: return rows<Epilogue::none, T>(t);
    case Epilogue::bias: return rows<Epilogue::bias, T>(t);
    case Epilogue::bias_gelu: return rows<Epilogue::bias_gelu, T>(t);
    case Epilogue::bias_residual: return rows<Epilogue::bias_residual, T>(t);
    case Epilogue::gelu_backward: return rows<Epilogue::gelu_backward, T>(t);
  }
}

void write_f32(const TileOutput& t) { dispatch<float>(t); }
void write_bf16(const TileOutput& t) { dispatch<Bf16>(t); }

}  // namespace
}  // namespace strata::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::host {

HWY_EXPORT(write_f32);
HWY_EXPORT(write_bf16);

void write_tile(const TileOutput& tile) {
  if (tile.dtype == DType::f32) {
    HWY_DYNAMIC_DISPATCH(write_f32)(tile);
  } else {
    HWY_DYNAMIC_DISPATCH(write_bf16)(tile);
  }
}

}  // namespace strata::host
#endif
