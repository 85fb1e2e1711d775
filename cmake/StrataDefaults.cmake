# What every target of the tree is built with.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
  endif()
  # -O2 builds in half the time of -O3; files of kernels get -O3 back (StrataLayer.cmake).
  string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
  # Each public header must compile alone: target all_verify_interface_header_sets.
  set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ${STRATA_BUILD_TESTS})
endif()

add_library(strata_options INTERFACE)
target_compile_options(strata_options INTERFACE -Wall -Wextra)
if(STRATA_WARNINGS_AS_ERRORS)
  target_compile_options(strata_options INTERFACE -Werror)
endif()

# The same bits on every machine: a compiler must never fuse a multiply and an add on its own. No
# -march either: kernels choose their instruction set at run time, through Highway and oneDNN.
add_library(strata_numerics INTERFACE)
target_compile_options(strata_numerics INTERFACE -ffp-contract=off -fno-math-errno)
