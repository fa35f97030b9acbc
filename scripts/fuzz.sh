#!/usr/bin/env bash
# Fuzzes every parser of untrusted bytes with libFuzzer, under the address and undefined-behaviour sanitizers.
#
#   scripts/fuzz.sh                         20 seconds per target
#   scripts/fuzz.sh --seconds 600           that long per target
#   scripts/fuzz.sh --runs 10000000         that many executions per target
#   scripts/fuzz.sh --target safetensors    one target only (may be repeated)
#   scripts/fuzz.sh --max-len 512           inputs of at most so many bytes (default: 4096); short ones are quicker
#   scripts/fuzz.sh --jobs 1                that many targets at a time (default: see scripts/jobs.sh)
#
# Needs clang with libFuzzer (scripts/setup.sh --fuzz); without it says so and ends with exit code 0. New
# inputs grow in build/fuzz/corpus; what breaks a target is left in build/fuzz/found, and the exit code is 1.
# build/fuzz/executions.txt keeps how often each target has run in all: the figure of docs/reliability.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }
die() { printf 'fuzz: %s\n' "$*" >&2; exit 2; }

seconds=20 runs='' max_len=4096 targets=() jobs=$(scripts/jobs.sh)
while [[ $# -gt 0 ]]; do
  case "$1" in
    --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
    --runs) runs=${2:?--runs needs a number}; shift 2 ;;
    --target) targets+=("${2:?--target needs a name}"); shift 2 ;;
    --max-len) max_len=${2:?--max-len needs a number}; shift 2 ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) die "unknown argument '$1'; known: --seconds, --runs, --target, --max-len, --jobs, --help" ;;
  esac
done
[[ $seconds =~ ^[0-9]+$ && ${runs:-0} =~ ^[0-9]+$ && $max_len =~ ^[1-9][0-9]*$ && $jobs =~ ^[1-9][0-9]*$ ]] ||
  die "--seconds, --runs, --max-len and --jobs take whole numbers"

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
readonly totals=build/fuzz/executions.txt
touch "$totals"
# The address sanitizer without the stacks of allocations and with a short quarantine runs up to twice as many inputs; a
# fault that is found is run again with everything: build/fuzz/tests/fuzz/fuzz_TARGET build/fuzz/found/FILE.
export ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=1:quarantine_size_mb=16}
for target in "${targets[@]}"; do
  [[ -x build/fuzz/tests/fuzz/fuzz_$target ]] || die "no target '$target'; there are: $(ls tests/fuzz/corpus | tr '\n' ' ')"
done

# Adds up in $totals (several targets may end at once), and prints the sum.
add_executions() { # TARGET N
  local before sum
  exec 8>"$totals.lock"
  flock 8
  before=$(awk -v t="$1" '$1 == t {print $2}' "$totals")
  sum=$((${before:-0} + $2))
  { grep -v "^$1 " "$totals" || true; echo "$1 $sum"; } >"$totals.new" && mv "$totals.new" "$totals"
  echo "$sum"
}

fuzz_one() { # TARGET
  local target=$1 limits=(-max_total_time="$seconds") status=0 n
  [[ -z $runs ]] || limits=(-runs="$runs")
  mkdir -p "build/fuzz/corpus/$target"
  # One slow or hungry input is a finding too: 5 s, 512 MB in one allocation, 2 GB in all.
  build/fuzz/tests/fuzz/fuzz_"$target" "${limits[@]}" -timeout=5 -malloc_limit_mb=512 -rss_limit_mb=2048 \
    -max_len="$max_len" -print_final_stats=1 -artifact_prefix="build/fuzz/found/$target-" \
    "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" >"build/fuzz/$target.log" 2>&1 || status=$?
  n=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$target.log")
  if [[ $status -eq 0 ]]; then
    printf 'fuzz: %-12s %11s executions, no fault (%s in all)\n' "$target" "${n:-0}" "$(add_executions "$target" "${n:-0}")"
  else
    add_executions "$target" "${n:-0}" >/dev/null
    printf 'fuzz: %-12s FAULT: see build/fuzz/%s.log and build/fuzz/found\n' "$target" "$target"
    return 1
  fi
}

status=0 running=0
for target in "${targets[@]}"; do
  if [[ $running -ge $jobs ]]; then
    wait -n || status=1
    running=$((running - 1))
  fi
  fuzz_one "$target" &
  running=$((running + 1))
done
while [[ $running -gt 0 ]]; do
  wait -n || status=1
  running=$((running - 1))
done
exit "$status"
