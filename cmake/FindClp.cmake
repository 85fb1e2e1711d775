# Clp::Clp, the linear programming library of COIN-OR. Its pkg-config file names what only a static
# library needs, so it is looked for by hand.
find_path(Clp_INCLUDE_DIR Clp_C_Interface.h PATH_SUFFIXES coin coin-or)
find_library(Clp_LIBRARY Clp)
find_library(Clp_UTILS_LIBRARY CoinUtils)
mark_as_advanced(Clp_INCLUDE_DIR Clp_LIBRARY Clp_UTILS_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  Clp REQUIRED_VARS Clp_LIBRARY Clp_UTILS_LIBRARY Clp_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "Install coinor-libclp-dev (./dev setup).")

if(Clp_FOUND AND NOT TARGET Clp::Clp)
  add_library(Clp::Clp UNKNOWN IMPORTED)
  set_target_properties(Clp::Clp PROPERTIES
                        IMPORTED_LOCATION "${Clp_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${Clp_INCLUDE_DIR}"
                        INTERFACE_LINK_LIBRARIES "${Clp_UTILS_LIBRARY}")
endif()
