// The checks of `strata doctor`, each pure.
#pragma once
#include "cli/doctor_report.hpp"

namespace strata {

Check check_cores(const MachineFacts&);
Check check_isa(const MachineFacts&);
Check check_memory(const MachineFacts&);
Check check_swap(const MachineFacts&);
Check check_huge_pages(const MachineFacts&);
Check check_locked_memory(const MachineFacts&);
Check check_open_files(const MachineFacts&);
Check check_uring(const MachineFacts&);
Check check_libraries(const MachineFacts&);
/// The n-th; those before it may be on the same drive.
Check check_directory(const std::vector<DirectoryFacts>&, size_t n);

/// The drives of a directory, for people; empty when they are unknown.
std::string drive_names(const DirectoryFacts&);

}  // namespace strata
