// The least time that the work of a step takes: that of the resource with the most of it. Pure.
#pragma once
#include <array>
#include <string_view>

#include "runtime/virtual/virtual_backend.hpp"

namespace strata {

struct Roofline {
  double seconds = 0;
  /// `processor` where compute, updates and copies share the cores, `nvme` where reads and writes
  /// share the drive; else the name of a resource.
  std::string_view bottleneck;
};

/// `work`: what each resource does, alone and at full speed, in seconds. Those that share cores add
/// up. A drive with a mixed rate does both ways at once until one of them is through, or one after
/// the other where that is faster.
Roofline roofline(const std::array<double, kResources>& work, const VirtualRates&);

}  // namespace strata
