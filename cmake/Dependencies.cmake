# Third-party packages: the system's by find_package, else, with -DTRIL_FETCH=ON, pinned sources.
option(TRIL_FETCH "Fetch pinned sources of packages that the system lacks" OFF)
include(FetchContent)

# tril_dependency(NAME target repository tag): after it, `target` exists or configuring has stopped.
macro(tril_dependency name target debian repository tag)
  find_package(${name} QUIET)
  if(NOT TARGET ${target})
    if(NOT TRIL_FETCH)
      message(FATAL_ERROR "${name} is not installed. Run scripts/setup.sh, install ${debian}, "
                          "or configure with -DTRIL_FETCH=ON to build it from pinned sources.")
    endif()
    FetchContent_Declare(${name} GIT_REPOSITORY ${repository} GIT_TAG ${tag} GIT_SHALLOW ON SYSTEM)
    FetchContent_MakeAvailable(${name})
    set(${name}_VERSION "${tag} (fetched)")
  endif()
  message(STATUS "tril: ${name} ${${name}_VERSION}")
endmacro()

tril_dependency(nlohmann_json nlohmann_json::nlohmann_json nlohmann-json3-dev
                https://github.com/nlohmann/json.git v3.11.2)
tril_dependency(spdlog spdlog::spdlog libspdlog-dev https://github.com/gabime/spdlog.git v1.14.1)
tril_dependency(CLI11 CLI11::CLI11 libcli11-dev https://github.com/CLIUtils/CLI11.git v2.4.2)
if(TRIL_BUILD_TESTS)
  tril_dependency(Catch2 Catch2::Catch2WithMain catch2 https://github.com/catchorg/Catch2.git v3.6.0)
endif()

# xxhash ships no CMake package on Debian: a header and a library.
find_path(TRIL_XXHASH_INCLUDE xxhash.h)
if(NOT TRIL_XXHASH_INCLUDE)
  if(NOT TRIL_FETCH)
    message(FATAL_ERROR "xxhash.h is not installed. Run scripts/setup.sh, install libxxhash-dev, "
                        "or configure with -DTRIL_FETCH=ON to use pinned sources.")
  endif()
  FetchContent_Declare(xxhash GIT_REPOSITORY https://github.com/Cyan4973/xxHash.git GIT_TAG v0.8.2 GIT_SHALLOW ON)
  FetchContent_GetProperties(xxhash)
  if(NOT xxhash_POPULATED)
    FetchContent_Populate(xxhash)
  endif()
  set(TRIL_XXHASH_INCLUDE "${xxhash_SOURCE_DIR}" CACHE PATH "" FORCE)
endif()
