option(TRIL_SANITIZE "Build with the address and undefined-behaviour sanitizers" OFF)

function(tril_set_sanitizers target)
  if(TRIL_SANITIZE)
    target_compile_options(${target} INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                                               -fno-omit-frame-pointer)
    target_link_options(${target} INTERFACE -fsanitize=address,undefined)
  endif()
endfunction()
