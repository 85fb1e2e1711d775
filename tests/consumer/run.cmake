# Installs the core out of BUILD_DIR into a fresh prefix, then builds and runs the consumer with it.
function(step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code TIMEOUT 100)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${what} failed (${code})")
  endif()
endfunction()

set(prefix ${WORK_DIR}/prefix)
set(build ${WORK_DIR}/build)
file(REMOVE_RECURSE ${WORK_DIR})
step("install" ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix} --component strata_core)
if(EXISTS ${prefix}/include/strata/models)
  message(FATAL_ERROR "the core installs headers of models")
endif()
step("configure" ${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR} -B ${build}
     -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
     -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
step("build" ${CMAKE_COMMAND} --build ${build})
step("run" ${build}/consumer)
