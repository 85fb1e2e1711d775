# Compile options shared by all targets, and one static library per layer.
add_library(strata_options INTERFACE)
target_compile_options(strata_options INTERFACE -Wall -Wextra -Werror)

# Bits must not depend on contraction; results must not depend on errno handling.
add_library(strata_numerics INTERFACE)
target_compile_options(strata_numerics INTERFACE -ffp-contract=off -fno-math-errno)

function(strata_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.cpp)
  add_library(strata_${name} STATIC ${sources})
  add_library(strata::${name} ALIAS strata_${name})
  set_target_properties(strata_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(strata_${name} PUBLIC cxx_std_20)
  target_include_directories(strata_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                   $<INSTALL_INTERFACE:include/strata>)
  target_link_libraries(strata_${name} PUBLIC ${ARG_DEPENDS}
                        PRIVATE ${ARG_PRIVATE_DEPENDS} $<BUILD_INTERFACE:strata_options>
                                $<BUILD_INTERFACE:strata_numerics>)
endfunction()
