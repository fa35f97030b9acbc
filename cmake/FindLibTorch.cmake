# Finds LibTorch and gives the imported target LibTorch::LibTorch.
#
# Why not find_package(Torch): the wheel's own TorchConfig.cmake wants a CUDA toolkit even for CPU
# programs and picks up a foreign one where it is installed. tril needs headers and libraries only.
#
# Where it looks, in this order:
#   TRIL_LIBTORCH (cache or environment)   a folder with include/ and lib/, or one that holds torch/
#   <project>/.deps/libtorch/torch         put there by scripts/setup.sh
#   the torch of the python3 in PATH
#
# Results: LibTorch_VERSION, LibTorch_DIR_FOUND, LibTorch_CUDA (are its CUDA libraries complete?).

set(TRIL_LIBTORCH "" CACHE PATH "Folder of LibTorch (with include/ and lib/)")
option(TRIL_ANY_LIBTORCH "Accept a LibTorch version outside the tested range" OFF)
set(TRIL_CUDA "AUTO" CACHE STRING "Link LibTorch's CUDA libraries: AUTO, ON or OFF")
set_property(CACHE TRIL_CUDA PROPERTY STRINGS AUTO ON OFF)

set(_candidates "")
if(TRIL_LIBTORCH)
  list(APPEND _candidates "${TRIL_LIBTORCH}" "${TRIL_LIBTORCH}/torch")
elseif(DEFINED ENV{TRIL_LIBTORCH} AND NOT "$ENV{TRIL_LIBTORCH}" STREQUAL "")
  list(APPEND _candidates "$ENV{TRIL_LIBTORCH}" "$ENV{TRIL_LIBTORCH}/torch")
else()
  list(APPEND _candidates "${CMAKE_CURRENT_LIST_DIR}/../.deps/libtorch/torch")
  find_program(_python NAMES python3)
  if(_python)
    execute_process(
      COMMAND "${_python}" -c
              "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE _python_torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(_python_torch)
      list(APPEND _candidates "${_python_torch}")
    endif()
  endif()
endif()

set(LibTorch_DIR_FOUND "")
foreach(_dir IN LISTS _candidates)
  if(EXISTS "${_dir}/include/torch/csrc/api/include/torch/torch.h" AND EXISTS "${_dir}/lib/libtorch_cpu.so")
    get_filename_component(LibTorch_DIR_FOUND "${_dir}" REALPATH)
    break()
  endif()
endforeach()

if(LibTorch_DIR_FOUND)
  file(STRINGS "${LibTorch_DIR_FOUND}/include/torch/headeronly/version.h" _version_lines
       REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3" LibTorch_VERSION
                       "${_version_lines}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch
  REQUIRED_VARS LibTorch_DIR_FOUND
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "run scripts/setup.sh, or give the folder of a LibTorch as -DTRIL_LIBTORCH=DIR. ")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  if(NOT TRIL_ANY_LIBTORCH AND (LibTorch_VERSION VERSION_LESS 2.11 OR LibTorch_VERSION VERSION_GREATER_EQUAL 2.16))
    message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} in ${LibTorch_DIR_FOUND} is outside 2.11 to 2.15 "
                        "(2.15.0 is what is tested). Try another with -DTRIL_ANY_LIBTORCH=ON.")
  endif()

  set(_lib "${LibTorch_DIR_FOUND}/lib")

  # CUDA counts as there only if every library that libtorch_cuda needs resolves: the light CPU set
  # of packages holds libtorch_cuda.so without its dependencies.
  set(LibTorch_CUDA OFF)
  set(LibTorch_CUDA_REASON "libtorch_cuda.so is not there")
  if(NOT TRIL_CUDA STREQUAL "OFF" AND EXISTS "${_lib}/libtorch_cuda.so")
    find_program(_ldd NAMES ldd)
    if(_ldd)
      execute_process(COMMAND "${_ldd}" "${_lib}/libtorch_cuda.so" OUTPUT_VARIABLE _needed ERROR_QUIET)
      string(REGEX MATCHALL "[^\n]*=> not found" _missing "${_needed}")
      if(_missing)
        list(GET _missing 0 _first_missing)
        string(STRIP "${_first_missing}" LibTorch_CUDA_REASON)
      else()
        set(LibTorch_CUDA ON)
        set(LibTorch_CUDA_REASON "")
      endif()
    endif()
  elseif(TRIL_CUDA STREQUAL "OFF")
    set(LibTorch_CUDA_REASON "built with TRIL_CUDA=OFF")
  endif()
  if(TRIL_CUDA STREQUAL "ON" AND NOT LibTorch_CUDA)
    message(FATAL_ERROR "TRIL_CUDA=ON, but the CUDA libraries of ${LibTorch_DIR_FOUND} are not complete: "
                        "${LibTorch_CUDA_REASON}. Install the full set: TRIL_CUDA=1 scripts/setup.sh")
  endif()

  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  # -idirafter: a system's fmt (spdlog is built with it) must win over the copy in LibTorch's headers.
  set_property(
    TARGET LibTorch::LibTorch
    PROPERTY INTERFACE_COMPILE_OPTIONS
             "SHELL:-idirafter \"${LibTorch_DIR_FOUND}/include\""
             "SHELL:-idirafter \"${LibTorch_DIR_FOUND}/include/torch/csrc/api/include\"")
  set_property(TARGET LibTorch::LibTorch PROPERTY INTERFACE_COMPILE_FEATURES cxx_std_20)
  set_property(TARGET LibTorch::LibTorch PROPERTY INTERFACE_COMPILE_DEFINITIONS USE_DISTRIBUTED USE_C10D_GLOO)
  set(_libraries "${_lib}/libtorch_cpu.so" "${_lib}/libc10.so")
  if(LibTorch_CUDA)
    list(APPEND _libraries "${_lib}/libtorch_cuda.so" "${_lib}/libc10_cuda.so")
  endif()
  # Headers of NCCL, from the packages beside LibTorch's: for several GPUs.
  set(LibTorch_NCCL_INCLUDES "")
  if(LibTorch_CUDA)
    find_path(LibTorch_NCCL_INCLUDE NAMES nccl.h PATHS "${LibTorch_DIR_FOUND}/../nvidia/nccl/include" NO_DEFAULT_PATH)
    find_path(LibTorch_CUDART_INCLUDE NAMES cuda_runtime_api.h PATHS "${LibTorch_DIR_FOUND}/../nvidia/cu13/include"
              NO_DEFAULT_PATH)
    if(LibTorch_NCCL_INCLUDE AND LibTorch_CUDART_INCLUDE)
      set(LibTorch_NCCL_INCLUDES "${LibTorch_NCCL_INCLUDE};${LibTorch_CUDART_INCLUDE}")
    endif()
  endif()
  # Its own OpenMP runtime, by path: a second one in the process would have threads of its own.
  file(GLOB _gomp "${_lib}/libgomp*.so*")
  list(APPEND _libraries ${_gomp})
  # --no-as-needed: no symbol of libtorch_cuda is used directly, and its kernels register by being loaded.
  set_property(
    TARGET LibTorch::LibTorch
    PROPERTY INTERFACE_LINK_LIBRARIES "-Wl,--push-state,--no-as-needed" ${_libraries} "-Wl,--pop-state")
  set_property(TARGET LibTorch::LibTorch PROPERTY INTERFACE_LINK_OPTIONS "-Wl,-rpath,${_lib}")

  # Two proofs, made once: the headers found by the compiler are this library's, and std::string has
  # the ABI the library was built with.
  set(_probe_key "${LibTorch_DIR_FOUND};${LibTorch_VERSION};${CMAKE_CXX_FLAGS};${CMAKE_CXX_COMPILER}")
  if(NOT "${_probe_key}" STREQUAL "${TRIL_LIBTORCH_PROBED}")
    set(_probe "${CMAKE_BINARY_DIR}/libtorch_probe.cpp")
    string(REPLACE "." ";" _parts "${LibTorch_VERSION}")
    list(GET _parts 0 _major)
    list(GET _parts 1 _minor)
    file(WRITE "${_probe}" "#include <string>
#include <torch/headeronly/version.h>
#include <c10/util/Logging.h>
#if TORCH_VERSION_MAJOR != ${_major} || TORCH_VERSION_MINOR != ${_minor}
#error \"the compiler finds the headers of another LibTorch first\"
#endif
namespace at { std::string get_parallel_info(); }
int main() { return at::get_parallel_info().empty() ? 1 : 0; }
")
    try_compile(_probe_built "${CMAKE_BINARY_DIR}/libtorch_probe" SOURCES "${_probe}"
                LINK_LIBRARIES LibTorch::LibTorch
                CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
                OUTPUT_VARIABLE _probe_output)
    if(NOT _probe_built)
      if(_probe_output MATCHES "another LibTorch")
        set(_hint "Headers of another LibTorch (a system package?) come first in the compiler's search path.")
      elseif(_probe_output MATCHES "undefined reference.*get_parallel_info")
        set(_hint "The std::string ABI differs: LibTorch 2.11 and later use the C++11 ABI; remove -D_GLIBCXX_USE_CXX11_ABI=0 from the flags.")
      else()
        set(_hint "The compiler's output follows.")
      endif()
      message(FATAL_ERROR "A small program does not build with LibTorch ${LibTorch_VERSION} in ${LibTorch_DIR_FOUND}. ${_hint}\n${_probe_output}")
    endif()
    set(TRIL_LIBTORCH_PROBED "${_probe_key}" CACHE INTERNAL "")
  endif()
endif()
