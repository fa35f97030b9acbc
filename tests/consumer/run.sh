#!/usr/bin/env bash
# Installs a built tril into a temporary prefix, then builds and runs the project beside this script against it.
#
#   tests/consumer/run.sh [BUILD]    BUILD: a built tree (default: build/release)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "${1:-$here/../../build/release}" && pwd)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$scratch/prefix/bin/tril" --version
# From here on nothing may depend on where the project is: only the prefix is named.
cmake -S "$here" -B "$scratch/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$scratch/prefix"
cmake --build "$scratch/build"
"$scratch/build/consumer"
