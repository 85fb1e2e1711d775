#include "runtime/hash.hpp"

#include <cstdio>

#ifdef STRATA_XXHASH_DISPATCH
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
// After it: the same names, for the processor's widest vectors.
#include <xxh_x86dispatch.h>
#else
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

namespace strata {

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
void Hasher::bytes(const void* data, size_t size) { XXH3_64bits_update(&state_->xxh, data, size); }
void Hasher::text(std::string_view s) {
  number(s.size());
  bytes(s.data(), s.size());
}
uint64_t Hasher::digest() const { return XXH3_64bits_digest(&state_->xxh); }

uint64_t hash_bytes(const void* data, size_t size) noexcept { return XXH3_64bits(data, size); }

std::string hash_text(uint64_t hash) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace strata
