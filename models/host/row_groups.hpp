// Cuts the rows of a matrix into the fixed groups that pool threads take.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/kernels/ieee_scope.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::host {

/// Rows whose contributions to a column sum are added together first. Part of the numerics key:
/// it must not depend on the number of threads.
constexpr size_t kSumRows = 64;
/// Rows a thread takes at a time where rows are independent; changes no result.
constexpr size_t kTaskRows = 16;
/// Columns of a sum over row groups that a thread takes at a time; changes no result.
constexpr size_t kTaskColumns = 256;
/// Elements a thread takes at a time in element-wise kernels; changes no result.
constexpr size_t kTaskElements = 16384;

constexpr size_t groups_of(size_t count, size_t group) { return (count + group - 1) / group; }

/// Calls f(index, begin, end) for each group of [0, count), with IEEE denormals.
template <class F>
void for_groups(ThreadPool& pool, size_t count, size_t group, F&& f) {
  const kernels::IeeeScope ieee;
  pool.parallel_for(static_cast<uint32_t>(groups_of(count, group)), [&, count, group](uint32_t i) {
    const size_t begin = i * group;
    f(i, begin, std::min(begin + group, count));
  });
}

}  // namespace strata::host
