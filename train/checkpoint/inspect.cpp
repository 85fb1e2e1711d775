#include "train/checkpoint/inspect.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/dtype.hpp"
#include "runtime/files/file_io.hpp"
#include "runtime/hash.hpp"

namespace strata {
namespace {

constexpr size_t kBlockBytes = 1 << 20;

double from_f16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25));
}

template <class T>
T load(const std::byte* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

using ToDouble = double (*)(const std::byte*);

/// Null for types that are no floats.
ToDouble float_reader(const std::string& dtype) {
  if (dtype == "F32") return [](const std::byte* p) { return double{load<float>(p)}; };
  if (dtype == "F64") return [](const std::byte* p) { return load<double>(p); };
  if (dtype == "F16") return [](const std::byte* p) { return from_f16(load<uint16_t>(p)); };
  if (dtype == "BF16") {
    return [](const std::byte* p) { return double{to_float(Bf16{load<uint16_t>(p)})}; };
  }
  return nullptr;
}

}  // namespace

void inspect_safetensors(Files& files, const std::string& path,
                         const std::function<void(const TensorSummary&)>& visit) {
  const auto file = files.open(path);
  const SafeTensorsHeader header = read_safetensors_header(*file);
  std::vector<std::byte> block(kBlockBytes);
  for (const SafeTensor& t : header.tensors) {
    TensorSummary s;
    s.tensor = t;
    const uint64_t size = safetensors_element_bytes(t.dtype);
    s.elems = t.bytes() / size;
    const ToDouble value = float_reader(t.dtype);
    s.least = std::numeric_limits<double>::infinity();
    s.most = -s.least;
    Hasher hash;
    for (uint64_t at = 0; at < t.bytes(); at += kBlockBytes) {
      const size_t n = std::min<uint64_t>(kBlockBytes, t.bytes() - at);
      read_all(*file, std::span(block).first(n), header.data_offset + t.begin + at, t.name);
      hash.bytes(block.data(), n);
      for (size_t i = 0; i < n && value != nullptr; i += size) {
        const double x = value(block.data() + i);
        if (!std::isfinite(x)) {
          ++s.nonfinite;
          continue;
        }
        s.least = std::min(s.least, x);
        s.most = std::max(s.most, x);
      }
    }
    s.has_range = s.least <= s.most;
    if (!s.has_range) s.least = s.most = 0;
    s.hash = hash.digest();
    visit(s);
  }
}

}  // namespace strata
