#!/usr/bin/env bash
# The fault campaigns in large numbers, and the table of docs/reliability.md.
#
#   scripts/faults.sh                 500 kills, 200 signals, 100 full disks, 1000 damaged files, 20000 steps (see --list)
#   scripts/faults.sh --only kill     one campaign: kill, signal, disk, damage, around, peers, long
#   scripts/faults.sh --table         only the table, from the reports that are there
#   scripts/faults.sh --list          what each campaign does
#
# Works with the release build (scripts/test.sh makes it). Each campaign appends to build/faults/report.jsonl; a fault
# that is found makes the exit code 1 and prints the seed that repeats it (TRIL_FAULTS_SEED=N). Faults come from a
# preloaded library (tests/faults/fault_shim.cpp), signals, limits and, as root, a small file system.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }
die() { printf 'faults: %s\n' "$*" >&2; exit 2; }

readonly CAMPAIGNS=(kill signal disk damage around peers long)
tests=build/release/tests/tril_fault_tests
unit_tests=build/release/tests/tril_tests
report=$PWD/build/faults/report.jsonl

table() {
  [[ -s $report ]] || die "no reports in $report yet"
  python3 - "$report" <<'PYTHON'
import collections, json, sys
rows = collections.OrderedDict()
for line in open(sys.argv[1], encoding="utf-8"):
    entry = json.loads(line)
    outcomes = rows.setdefault((entry["kind"], entry["where"]), collections.Counter())
    if entry["kind"] == "long run":
        outcomes.clear()
    outcomes.update(entry["outcomes"] or {})
print("| fault | where | events | outcome |\n| --- | --- | ---: | --- |")
for (kind, where), outcomes in rows.items():
    text = ", ".join(f"{n} {what}" if kind != "long run" else what for what, n in sorted(outcomes.items()))
    print(f"| {kind} | {where} | {sum(outcomes.values())} | {text} |")
PYTHON
}

only=''
case "${1:-}" in
  '') ;;
  --only) only=${2:?--only needs a campaign}; [[ " ${CAMPAIGNS[*]} " == *" $only "* ]] || die "no campaign '$only'; there are: ${CAMPAIGNS[*]}" ;;
  --table) table; exit 0 ;;
  --list)
    echo "kill    320 kills at random instants, 120 at operations on files, 30 of prepare, 30 of evaluate and generate"
    echo "signal  140 signals at random instants, 60 at operations of a save"
    echo "disk    100 full or failing disks, file-size limits, a small file system, lost rights, a slow disk, lost folders"
    echo "damage  216 damaged files given to the program, 1000 inside one process"
    echo "around  a jumping clock, memory limits, queued jobs, 20 double starts, damaged newest checkpoints"
    echo "peers   20 kills of one of 4 processes that train together, restarted by torchrun"
    echo "long    20000 steps with evaluations and saves: memory"
    exit 0 ;;
  -h | --help) usage; exit 0 ;;
  *) die "unknown argument '$1'; known: --only, --table, --list, --help" ;;
esac
[[ -x $tests && -x $unit_tests ]] || die "$tests is not there; run scripts/test.sh first"

mkdir -p build/faults
export TRIL_FAULTS_REPORT=$report OMP_NUM_THREADS=1
export TRIL_FAULTS_KILL=${TRIL_FAULTS_KILL:-320} TRIL_FAULTS_KILL_OPERATIONS=${TRIL_FAULTS_KILL_OPERATIONS:-120} \
  TRIL_FAULTS_KILL_PREPARE=${TRIL_FAULTS_KILL_PREPARE:-30} TRIL_FAULTS_KILL_EVALUATE=${TRIL_FAULTS_KILL_EVALUATE:-30} \
  TRIL_FAULTS_SIGNAL=${TRIL_FAULTS_SIGNAL:-140} TRIL_FAULTS_SIGNAL_OPERATIONS=${TRIL_FAULTS_SIGNAL_OPERATIONS:-60} \
  TRIL_FAULTS_DISK_FULL=${TRIL_FAULTS_DISK_FULL:-100} TRIL_FAULTS_DAMAGE=${TRIL_FAULTS_DAMAGE:-216} \
  TRIL_FAULTS_DAMAGE_IN_PROCESS=${TRIL_FAULTS_DAMAGE_IN_PROCESS:-1000} TRIL_FAULTS_TWO_RUNS=${TRIL_FAULTS_TWO_RUNS:-20} \
  TRIL_FAULTS_TORCHRUN=${TRIL_FAULTS_TORCHRUN:-20} TRIL_FAULTS_LONG_STEPS=${TRIL_FAULTS_LONG_STEPS:-20000}

campaign() { # NAME PROGRAM TEST…
  local name=$1 program=$2 status=0
  shift 2
  [[ -z $only || $only == "$name" ]] || return 0
  printf '\n== %s ==\n' "$name"
  local test
  for test in "$@"; do "$program" "$test" || status=1; done
  [[ $status -eq 0 ]] || failed+=("$name")
}

failed=()
campaign kill "$tests" 'a run killed*' 'a killed*'
campaign signal "$tests" 'a run stopped by signals*' 'a signal*' 'a second signal*' 'an interrupt*' 'a terminal*'
campaign disk "$tests" 'a disk*' 'a file-size limit*' 'a real small*' 'a run that loses*' 'a slow disk*' 'a run whose folder*' 'a text or token file*'
campaign damage "$tests" 'every command refuses*' 'files that stand*' "a stranger's run*"
campaign damage "$unit_tests" 'a thousand damaged*'
campaign around "$tests" 'a clock*' 'memory that ends*' 'one command line*' 'an automatic resume*' 'two runs*'
campaign peers "$tests" 'torchrun restarts*'
campaign long "$tests" 'memory stays flat*'

echo
[[ ! -s $report ]] || table
if [[ ${#failed[@]} -gt 0 ]]; then
  printf '\nfailed: %s\n' "${failed[*]}"
  exit 1
fi
