# Warnings live on a target of their own; errors only in our own builds (presets dev and release of
# scripts/test.sh), so that a user's newer compiler never stops a build.
option(TRIL_WERROR "Treat warnings as errors" OFF)

function(tril_set_warnings target)
  target_compile_options(
    ${target}
    INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast
              -Wnon-virtual-dtor -Woverloaded-virtual)
  if(TRIL_WERROR)
    target_compile_options(${target} INTERFACE -Werror)
  endif()
endfunction()
