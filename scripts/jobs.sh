#!/usr/bin/env bash
# Prints how many compilers may run at once: TRIL_JOBS, else the cores, or fewer where memory is short (a file that
# includes torch.h takes about 2 GB to compile).
set -euo pipefail

if [[ -n "${TRIL_JOBS:-}" ]]; then
  echo "$TRIL_JOBS"
  exit 0
fi
cores=$(nproc)
fit=$(awk '/^MemAvailable:/ {print int($2 / 2097152)}' /proc/meminfo 2>/dev/null || true)
fit=${fit:-$cores}
((fit >= 1)) || fit=1
echo $((cores < fit ? cores : fit))
