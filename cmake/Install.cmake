# `cmake --install BUILD --prefix P`: the program, the static libraries, their headers, and what
# find_package(tril) reads. It gives
#   tril::tril   everything: modules, trainer, generator (with LibTorch)
#   tril::base   the Torch-free part alone
# LibTorch is not copied: the installed package finds the one tril was built with where it was then,
# or one of the same version (see tril-config.cmake.in).

option(TRIL_INSTALL "Have install rules" ${PROJECT_IS_TOP_LEVEL})
if(NOT TRIL_INSTALL)
  return()
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The program finds LibTorch where the build found it.
set_target_properties(tril_tensors PROPERTIES INSTALL_RPATH "${LibTorch_DIR_FOUND}/lib")
install(TARGETS tril tril_tensors RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The libraries name spdlog and nlohmann_json as dependencies. Fetched sources of those have no
# installed package that could be named, so such a build installs the program only.
foreach(_dependency spdlog::spdlog nlohmann_json::nlohmann_json)
  get_target_property(_imported ${_dependency} IMPORTED)
  if(NOT _imported)
    message(STATUS "tril: ${_dependency} was fetched, so `cmake --install` gives the program and no library")
    return()
  endif()
endforeach()

# One name for all. tril_core brings tril_base and LibTorch along.
add_library(tril_library INTERFACE)
target_link_libraries(tril_library INTERFACE tril_core)
set_target_properties(tril_library PROPERTIES EXPORT_NAME tril)
set_target_properties(tril_core PROPERTIES EXPORT_NAME core)
set_target_properties(tril_base PROPERTIES EXPORT_NAME base)

set(_package "${CMAKE_INSTALL_LIBDIR}/cmake/tril")
install(TARGETS tril_library tril_core tril_base EXPORT tril-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT tril-targets NAMESPACE tril:: DESTINATION ${_package})
install(DIRECTORY include/tril DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

configure_package_config_file(cmake/tril-config.cmake.in "${PROJECT_BINARY_DIR}/tril-config.cmake"
                              INSTALL_DESTINATION ${_package} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tril-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tril-config.cmake" "${PROJECT_BINARY_DIR}/tril-config-version.cmake"
              cmake/FindLibTorch.cmake
        DESTINATION ${_package})
