#!/usr/bin/env bash
# Formats every C++ file of the project with .clang-format; --check only says which files would change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  '' | --check) ;;
  *) echo "format: unknown argument '$1'; known: --check" >&2; exit 2 ;;
esac
if ! command -v clang-format >/dev/null; then
  echo "format: clang-format is not installed; try 'apt-get install clang-format'" >&2
  exit 1
fi
mapfile -d '' files < <(find include src tests \( -name '*.h' -o -name '*.cpp' \) -print0 | sort -z)
if [[ "${1:-}" != --check ]]; then
  clang-format -i "${files[@]}"
  exit 0
fi
status=0
for file in "${files[@]}"; do
  if ! clang-format "$file" | cmp --quiet - "$file"; then
    echo "$file"
    status=1
  fi
done
exit "$status"
