// Hashes of plans, layouts, numerics keys and final states.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

namespace strata {

/// XXH3, 64 bits, over everything added, in order.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void bytes(const void* data, size_t size);
  /// A text, told apart from its neighbours by its length.
  void text(std::string_view s);
  void number(uint64_t n) { bytes(&n, sizeof n); }
  uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a `Hasher` makes of these bytes alone, without allocating.
uint64_t hash_bytes(const void* data, size_t size) noexcept;

/// 16 hexadecimal digits.
std::string hash_text(uint64_t hash);

}  // namespace strata
