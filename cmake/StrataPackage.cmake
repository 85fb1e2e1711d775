# Install rules. Component strata_core is the library without models; strata_models is the rest.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(STRATA_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/strata)

# strata_install(component target...): libraries, headers and exported targets of one component.
function(strata_install component)
  if(NOT STRATA_INSTALL)
    return()
  endif()
  foreach(target IN LISTS ARGN)
    get_target_property(type ${target} TYPE)
    set(header_set "")
    if(type STREQUAL "STATIC_LIBRARY")
      set(header_set FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/strata
                     COMPONENT strata_${component})
    endif()
    install(TARGETS ${target} EXPORT strata_${component}
            ARCHIVE COMPONENT strata_${component} ${header_set})
  endforeach()
  install(EXPORT strata_${component} NAMESPACE strata:: DESTINATION ${STRATA_PACKAGE_DIR}
          FILE strata_${component}.cmake COMPONENT strata_${component})
endfunction()

# strata_install_package(): strataConfig.cmake and its version file.
function(strata_install_package)
  if(NOT STRATA_INSTALL)
    return()
  endif()
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/strataConfig.cmake.in
                                ${PROJECT_BINARY_DIR}/strataConfig.cmake
                                INSTALL_DESTINATION ${STRATA_PACKAGE_DIR})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/strataConfigVersion.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/strataConfig.cmake
                ${PROJECT_BINARY_DIR}/strataConfigVersion.cmake
          DESTINATION ${STRATA_PACKAGE_DIR} COMPONENT strata_core)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/FindClp.cmake
          DESTINATION ${STRATA_PACKAGE_DIR} COMPONENT strata_core)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/FindOneDnn.cmake
          DESTINATION ${STRATA_PACKAGE_DIR} COMPONENT strata_models)
endfunction()
