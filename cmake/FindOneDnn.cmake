# OneDnn::dnnl. The library's own CMake package is no use here: as Debian builds it, it asks for
# the headers of OpenCL, which libdnnl-dev does not bring and nothing of ours needs.
find_path(OneDnn_INCLUDE_DIR dnnl.hpp)
find_library(OneDnn_LIBRARY dnnl)
mark_as_advanced(OneDnn_INCLUDE_DIR OneDnn_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDnn REQUIRED_VARS OneDnn_LIBRARY OneDnn_INCLUDE_DIR
                                  REASON_FAILURE_MESSAGE "Install libdnnl-dev (./dev setup).")

if(OneDnn_FOUND AND NOT TARGET OneDnn::dnnl)
  add_library(OneDnn::dnnl UNKNOWN IMPORTED)
  set_target_properties(OneDnn::dnnl PROPERTIES
                        IMPORTED_LOCATION "${OneDnn_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${OneDnn_INCLUDE_DIR}")
endif()
