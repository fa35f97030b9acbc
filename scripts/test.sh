#!/usr/bin/env bash
# Sets everything up, builds with warnings as errors, and runs the tests.
#
#   scripts/test.sh            all tests of the release build, then the Torch-free ones (without [slow]) under the
#                              address and undefined-behaviour sanitizers, then 20 s of each fuzz target
#                              (scripts/fuzz.sh; skipped with a message where there is no clang)
#   scripts/test.sh --quick    the default tests only (no [slow] ones, no sanitizers)
#   scripts/test.sh --full     as without, then everything under the sanitizers (the command line and the faults too), the
#                              Torch-free tests under the thread sanitizer, two clean builds that must train the same
#                              weights (scripts/reproduce.sh), and the golden files made anew where
#                              scripts/setup.sh --peers has been run
#
# TRIL_FUZZ_SECONDS=N  how long each fuzz target runs (default 20)
# TRIL_JOBS=N  how many compilers and tests run at once (default: see scripts/jobs.sh)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

mode=default
for argument in "$@"; do
  case "$argument" in
    --quick) mode=quick ;;
    --full) mode=full ;;
    -h | --help) usage; exit 0 ;;
    *) echo "test: unknown argument '$argument'; known: --quick, --full, --help" >&2; exit 2 ;;
  esac
done

jobs=$(scripts/jobs.sh)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0 suites_failed=()

# run_suite TITLE PRESET [CTEST OPTION…]: runs the tests of a built preset and adds up what CTest says.
run_suite() {
  local title=$1 preset=$2 status=0
  shift 2
  printf '\n== %s ==\n' "$title"
  ctest --preset "$preset" --no-tests=error -j "$jobs" "$@" 2>&1 | tee "$log" || status=$?
  local total failures skips
  total=$(sed -n 's/^[0-9]*% tests passed, [0-9]* tests* failed out of \([0-9]*\)$/\1/p' "$log")
  failures=$(sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests* failed out of [0-9]*$/\1/p' "$log")
  skips=$(grep -c '\*\*\*Skipped' "$log" || true) # CTest counts them among the passed
  if [[ $status -ne 0 || -z $total ]]; then suites_failed+=("$title"); fi
  failed=$((failed + ${failures:-0}))
  skipped=$((skipped + skips))
  passed=$((passed + ${total:-0} - ${failures:-0} - skips))
}

build() { # PRESET [CMAKE OPTION…]
  local preset=$1
  shift
  printf '\n== building %s ==\n' "$preset"
  cmake --preset "$preset" "$@" >"$log" || { cat "$log"; exit 1; }
  cmake --build --preset "$preset" -j "$jobs"
}

start=$SECONDS
if [[ $mode == full && $EUID -eq 0 ]]; then scripts/setup.sh --fuzz; else scripts/setup.sh; fi
build release -DTRIL_WERROR=ON
if [[ $mode == quick ]]; then
  run_suite 'default tests' release -LE slow
else
  run_suite 'all tests' release
  build asan-base
  run_suite 'Torch-free tests under the sanitizers' asan-base -LE slow
  printf '\n== fuzz targets ==\n'
  scripts/fuzz.sh --seconds "${TRIL_FUZZ_SECONDS:-20}" || suites_failed+=('fuzz targets')
fi
if [[ $mode == full ]]; then
  build asan
  # What stays in memory at the end of a program is no fault of a command that ends.
  ASAN_OPTIONS=detect_leaks=0 run_suite 'all tests under the sanitizers' asan
  build tsan-base
  run_suite 'Torch-free tests under the thread sanitizer' tsan-base -LE slow
  printf '\n== two clean builds ==\n'
  scripts/reproduce.sh || suites_failed+=('two clean builds')
  if [[ -f .deps/peers/tril_set.txt ]]; then
    printf '\n== golden files ==\n'
    .deps/peers/bin/python scripts/make_golden.py --check || suites_failed+=('golden files')
  fi
fi

printf '\n%d passed, %d failed, %d skipped in %d s\n' "$passed" "$failed" "$skipped" $((SECONDS - start))
if [[ ${#suites_failed[@]} -gt 0 ]]; then
  printf 'failed: %s\n' "${suites_failed[@]}"
  exit 1
fi
