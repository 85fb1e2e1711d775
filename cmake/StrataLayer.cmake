# strata_layer(name DEPENDS ... PRIVATE_DEPENDS ...): the folder `name` as static library
# strata_<name>, alias strata::<name>. Its .hpp files are public, except *_inl.hpp, which only its
# own sources can include.
function(strata_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  set(target strata_${name})
  set(folder ${PROJECT_SOURCE_DIR}/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${folder}/*.hpp)
  list(FILTER headers EXCLUDE REGEX "[-_]inl\\.hpp$")

  add_library(${target} STATIC ${sources})
  add_library(strata::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Both <strata/runtime/errors.hpp> and, as our own headers say it, "runtime/errors.hpp".
  target_include_directories(${target} PUBLIC $<INSTALL_INTERFACE:include>)
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}
                                  FILES ${headers})
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS}
                        PRIVATE ${ARG_PRIVATE_DEPENDS} $<BUILD_INTERFACE:strata_options>
                                $<BUILD_INTERFACE:strata_numerics>)

  set(kernels ${sources})
  list(FILTER kernels INCLUDE REGEX "^${folder}/(.*/)?(kernels|host)/")
  if(kernels AND CMAKE_BUILD_TYPE STREQUAL "Release")
    set_source_files_properties(${kernels} PROPERTIES COMPILE_OPTIONS -O3)
  endif()
endfunction()

# strata_umbrella(name target...): one name for a group of layers.
function(strata_umbrella name)
  add_library(strata_${name} INTERFACE)
  add_library(strata::${name} ALIAS strata_${name})
  set_target_properties(strata_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(strata_${name} INTERFACE ${ARGN})
endfunction()
