// What the issuer issued, in order. Equal between real runs with any timing and the virtual run.
#pragma once
#include <cstdint>
#include <vector>

#include "chunk/table.hpp"

namespace strata {

enum class Issued : uint8_t { op, fetch, write_back, drop, update, square_sum, norm, skipped_hint };

/// Fixed-size and free of padding, so that logs compare as bytes.
struct IssueEntry {
  Issued kind;
  Plane plane;
  uint16_t program;
  uint32_t op;     // cursor of the program when it was issued
  uint32_t chunk;  // of the object; 0 for ops
  uint32_t unit;   // first destination unit; 0 where there is none
  bool operator==(const IssueEntry&) const = default;
};
static_assert(sizeof(IssueEntry) == 16);

using IssueLog = std::vector<IssueEntry>;

}  // namespace strata
