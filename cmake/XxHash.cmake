# xxHash's header is compiled into runtime/hash.cpp. Where the shared library has the variants for
# AVX2 and AVX-512 and picks one as it runs, that is used instead: STRATA_XXHASH names it.
find_path(STRATA_XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(STRATA_XXHASH_LIBRARY xxhash)
mark_as_advanced(STRATA_XXHASH_INCLUDE STRATA_XXHASH_LIBRARY)

set(STRATA_XXHASH "")
if(STRATA_XXHASH_LIBRARY)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_INCLUDES ${STRATA_XXHASH_INCLUDE})
  set(CMAKE_REQUIRED_LIBRARIES ${STRATA_XXHASH_LIBRARY})
  check_cxx_source_compiles("
    #include <xxhash.h>
    #include <xxh_x86dispatch.h>
    int main() { return static_cast<int>(XXH3_64bits_dispatch(\"\", 0)); }"
    STRATA_XXHASH_DISPATCH)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(STRATA_XXHASH_DISPATCH)
    set(STRATA_XXHASH ${STRATA_XXHASH_LIBRARY})
    set_source_files_properties(${PROJECT_SOURCE_DIR}/runtime/hash.cpp PROPERTIES
                                COMPILE_DEFINITIONS STRATA_XXHASH_DISPATCH=1)
  endif()
endif()
