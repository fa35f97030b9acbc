#!/usr/bin/env bash
# Builds tril twice from scratch, without ccache, in two folders of different names, trains the same short run with both,
# and compares the weights: equal bytes, or exit code 1. Takes two builds (about 15 minutes on two cores).
#
#   scripts/reproduce.sh [CONFIG]        default: configs/smoke.json
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
config=${1:-configs/smoke.json}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

hashes=()
for name in first the_second; do
  cmake --preset release -B "$work/$name" -DTRIL_CCACHE=OFF -DTRIL_BUILD_TESTS=OFF >/dev/null
  cmake --build "$work/$name" --target tril -j "$(scripts/jobs.sh)" >/dev/null
  "$work/$name/tril" train --config "$config" --device cpu --threads 1 --run-dir "$work/run_$name" --quiet
  newest=$(ls -d "$work/run_$name"/checkpoints/step_* | tail -n 1)
  hashes+=("$(sha256sum <"$newest/model.safetensors" | cut -d ' ' -f 1)")
  printf 'reproduce: build %-10s weights %s\n' "$name" "${hashes[-1]}"
done
[[ ${hashes[0]} == "${hashes[1]}" ]] || { echo 'reproduce: the two builds trained different weights' >&2; exit 1; }
echo 'reproduce: equal'
