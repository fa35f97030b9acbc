option(TRIL_SANITIZE "Build with the address and undefined-behaviour sanitizers" OFF)
option(TRIL_SANITIZE_THREAD "Build with the thread sanitizer" OFF)
option(TRIL_FUZZ "Build the libFuzzer programs (clang only), with the address and undefined-behaviour sanitizers" OFF)

function(tril_set_sanitizers target)
  if(TRIL_SANITIZE_THREAD)
    target_compile_options(${target} INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
    target_link_options(${target} INTERFACE -fsanitize=thread)
  elseif(TRIL_SANITIZE OR TRIL_FUZZ)
    target_compile_options(${target} INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                                               -fno-omit-frame-pointer)
    target_link_options(${target} INTERFACE -fsanitize=address,undefined)
  endif()
  if(TRIL_FUZZ)
    # What guides the fuzzer: which edges of our code an input reaches, and what it is compared with.
    target_compile_options(${target} INTERFACE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
