#!/usr/bin/env bash
# Runs clang-tidy with .clang-tidy over the sources, compiled as the preset `tidy` says. A Torch file takes about a
# minute, a Torch-free one 5 to 20 s.
#
#   scripts/tidy.sh              the .cpp files that differ from the last commit
#   scripts/tidy.sh --all        every .cpp file of src/ and tests/
#   scripts/tidy.sh FILE...      these
#
# CLANG_TIDY=PROGRAM  (default: clang-tidy; 14 or later)
# TRIL_JOBS=N         how many run at once (default: see scripts/jobs.sh)
set -euo pipefail
invoked_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

tidy=${CLANG_TIDY:-clang-tidy}
files=()
case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  '')
    # Deleted files are not listed; new ones are, committed or not.
    mapfile -t files < <({ git diff --name-only --diff-filter=d HEAD; git ls-files --others --exclude-standard; } |
      grep -E '^(src|tests)/.*\.cpp$' | grep -v '^tests/consumer/' | sort -u)
    ;;
  --all) mapfile -t files < <(find src tests -name '*.cpp' -not -path 'tests/consumer/*' | sort) ;;
  -*) echo "tidy: unknown argument '$1'; known: --all, --help, or files" >&2; exit 2 ;;
  *) mapfile -t files < <(cd "$invoked_from" && realpath --relative-to "$OLDPWD" -- "$@") ;;
esac
if [[ ${#files[@]} -eq 0 ]]; then
  echo 'tidy: no .cpp file has changed; --all checks every one' >&2
  exit 0
fi
if ! command -v "$tidy" >/dev/null; then
  echo "tidy: $tidy is not installed; try 'apt-get install clang-tidy'" >&2
  exit 1
fi

# Configured, not built: the compile commands are all that clang-tidy needs.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake --preset tidy >"$log" 2>&1 || { cat "$log" >&2; exit 1; }

printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(scripts/jobs.sh)" "$tidy" -p build/tidy --quiet --warnings-as-errors='*' \
    2> >(grep -Ev '^[0-9]+ (warnings?|errors?).*(generated|treated)' >&2)
