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

# Compressed texts (.gz, .zst): without these the program builds, and says so when it meets one.
# Found by header and library, so that the installed package names no other packages.
set(TRIL_COMPRESSION_INCLUDES)
set(TRIL_COMPRESSION_LIBRARIES)
set(TRIL_COMPRESSION_DEFINITIONS)
function(tril_compression name header library debian)
  find_path(TRIL_${name}_INCLUDE ${header})
  find_library(TRIL_${name}_LIBRARY ${library})
  if(TRIL_${name}_INCLUDE AND TRIL_${name}_LIBRARY)
    message(STATUS "tril: ${library} ${TRIL_${name}_LIBRARY}")
    list(APPEND TRIL_COMPRESSION_INCLUDES "${TRIL_${name}_INCLUDE}")
    list(APPEND TRIL_COMPRESSION_LIBRARIES "${TRIL_${name}_LIBRARY}")
    list(APPEND TRIL_COMPRESSION_DEFINITIONS TRIL_HAS_${name}=1)
  else()
    message(STATUS "tril: ${library} is not there (Debian: ${debian}), so compressed texts of its kind cannot be read")
    list(APPEND TRIL_COMPRESSION_DEFINITIONS TRIL_HAS_${name}=0)
  endif()
  foreach(list INCLUDES LIBRARIES DEFINITIONS)
    set(TRIL_COMPRESSION_${list} "${TRIL_COMPRESSION_${list}}" PARENT_SCOPE)
  endforeach()
endfunction()
tril_compression(ZLIB zlib.h z zlib1g-dev)
tril_compression(ZSTD zstd.h zstd libzstd-dev)

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
