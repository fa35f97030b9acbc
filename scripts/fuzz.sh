#!/usr/bin/env bash
# Fuzzes every parser of untrusted bytes with libFuzzer, under the address and undefined-behaviour sanitizers.
#
#   scripts/fuzz.sh                         20 seconds per target (scripts/test.sh: 10)
#   scripts/fuzz.sh --seconds 600           that long per target
#   scripts/fuzz.sh --runs 10000000         that many executions per target
#   scripts/fuzz.sh --target safetensors    one target only (may be repeated)
#
# Needs clang with libFuzzer (scripts/setup.sh --fuzz); without it says so and ends with exit code 0. New
# inputs grow in build/fuzz/corpus; what breaks a target is left in build/fuzz/found, and the exit code is 1.
# build/fuzz/executions.txt keeps how often each target has run in all: the figure of docs/reliability.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }
die() { printf 'fuzz: %s\n' "$*" >&2; exit 2; }

seconds=20 runs='' targets=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
    --runs) runs=${2:?--runs needs a number}; shift 2 ;;
    --target) targets+=("${2:?--target needs a name}"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) die "unknown argument '$1'; known: --seconds, --runs, --target, --help" ;;
  esac
done
[[ $seconds =~ ^[0-9]+$ && ${runs:-0} =~ ^[0-9]+$ ]] || die "--seconds and --runs take whole numbers"

if ! command -v clang++ >/dev/null ||
  ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
  clang++ -x c++ -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null; then
  echo "fuzz: skipped: no clang with libFuzzer here (as root: scripts/setup.sh --fuzz)"
  exit 0
fi

mkdir -p build/fuzz
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(scripts/jobs.sh)" >build/fuzz/build.log || {
  grep -A 3 -E 'error|FAILED' build/fuzz/build.log | head -40 >&2
  die "the targets do not build; all of it: build/fuzz/build.log"
}
[[ ${#targets[@]} -gt 0 ]] || mapfile -t targets < <(ls tests/fuzz/corpus)

mkdir -p build/fuzz/found
totals=build/fuzz/executions.txt
touch "$totals"
failed=()
for target in "${targets[@]}"; do
  [[ -x build/fuzz/tests/fuzz/fuzz_$target ]] || die "no target '$target'; there are: $(ls tests/fuzz/corpus | tr '\n' ' ')"
  mkdir -p "build/fuzz/corpus/$target"
  limits=(-max_total_time="$seconds")
  [[ -z $runs ]] || limits=(-runs="$runs")
  # One slow or hungry input is a finding too: 5 s, 512 MB in one allocation, 2 GB in all.
  status=0
  build/fuzz/tests/fuzz/fuzz_"$target" "${limits[@]}" -timeout=5 -malloc_limit_mb=512 -rss_limit_mb=2048 \
    -max_len=4096 -print_final_stats=1 -artifact_prefix="build/fuzz/found/$target-" \
    "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" >"build/fuzz/$target.log" 2>&1 || status=$?
  n=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$target.log")
  before=$(awk -v t="$target" '$1 == t {print $2}' "$totals")
  sum=$((${before:-0} + ${n:-0}))
  { grep -v "^$target " "$totals" || true; echo "$target $sum"; } >"$totals.new" && mv "$totals.new" "$totals"
  if [[ $status -eq 0 ]]; then
    printf 'fuzz: %-12s %11s executions, no fault (%s in all)\n' "$target" "${n:-0}" "$sum"
  else
    printf 'fuzz: %-12s FAULT: see build/fuzz/%s.log and build/fuzz/found\n' "$target" "$target"
    failed+=("$target")
  fi
done
[[ ${#failed[@]} -eq 0 ]]
