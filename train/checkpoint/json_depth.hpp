// A bound on nesting for JSON from outside.
#pragma once
#include <string_view>

namespace strata {

/// Whether brackets nest deeper than any file of ours: parsing is recursive, and must not exhaust
/// the stack.
bool too_deep(std::string_view json) noexcept;

}  // namespace strata
