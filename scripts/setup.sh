#!/usr/bin/env bash
# Sets up what building tril needs: Debian packages and LibTorch. A second call finds nothing to do.
#
#   scripts/setup.sh            packages (as root) and LibTorch in .deps/libtorch
#   scripts/setup.sh --fuzz     and clang with libFuzzer, for scripts/fuzz.sh (as root)
#   scripts/setup.sh --peers    and a Python with torch in .deps/peers, for golden files and comparisons (5.4 GB)
#
# TRIL_LIBTORCH=DIR  use this LibTorch and install none (a folder with include/ and lib/, or one that holds torch/)
# TRIL_CUDA=1|0      install the full set of LibTorch's packages (5.4 GB) or the light CPU set (1.3 GB);
#                    unset: the full set where nvidia-smi finds a GPU
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
readonly TORCH_VERSION=2.15.0
PACKAGES=(build-essential cmake ninja-build ccache git python3 python3-venv python3-pip libcli11-dev
  libspdlog-dev nlohmann-json3-dev catch2 libxxhash-dev zlib1g-dev libzstd-dev)

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

# --- Debian packages -------------------------------------------------------------------------------------------------

# Prints the packages that dpkg does not know as installed, one a line.
missing_packages() {
  local package
  for package in "${PACKAGES[@]}"; do
    [[ "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)" == 'install ok installed' ]] || echo "$package"
  done
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "this is no Debian system: make sure of a C++20 compiler, CMake 3.25+, Ninja, Python 3.10+ with pip, CLI11," \
      "spdlog, nlohmann_json, Catch2 and xxhash (or configure with -DTRIL_FETCH=ON); for compressed texts zlib and libzstd"
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $EUID -ne 0 ]]; then
    die "missing packages: ${missing[*]}. Install them with" \
      "'sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}', then run this again."
  fi
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# --- LibTorch --------------------------------------------------------------------------------------------------------

# Is this a LibTorch that cmake/FindLibTorch.cmake would take?
is_libtorch() { [[ -f "$1/include/torch/csrc/api/include/torch/torch.h" && -f "$1/lib/libtorch_cpu.so" ]]; }

# A python3 with pip; PATH may lead to one without (pyenv), so the system's is asked too.
python_with_pip() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      echo "$python"
      return
    fi
  done
  die "no python3 with pip found; install python3-pip, or set TRIL_LIBTORCH to the folder of a LibTorch"
}

# Does the python3 in PATH have a torch that tril works with? FindLibTorch.cmake asks the same python.
python_has_torch() {
  python3 - 2>/dev/null <<'PYTHON'
import importlib.metadata, importlib.util, sys
if importlib.util.find_spec("torch") is None:
    sys.exit(1)
version = tuple(int(part) for part in importlib.metadata.version("torch").split("+")[0].split(".")[:2])
sys.exit(0 if (2, 11) <= version <= (2, 15) else 1)
PYTHON
}

wanted_set() {
  case "${TRIL_CUDA:-}" in
    1 | ON | on) echo full ;;
    0 | OFF | off) echo cpu ;;
    *) if nvidia-smi -L 2>/dev/null | grep -q GPU; then echo full; else echo cpu; fi ;;
  esac
}

install_libtorch() {
  if [[ -n "${TRIL_LIBTORCH:-}" ]]; then
    is_libtorch "$TRIL_LIBTORCH" || is_libtorch "$TRIL_LIBTORCH/torch" ||
      die "TRIL_LIBTORCH=$TRIL_LIBTORCH holds no LibTorch: expected include/ and lib/libtorch_cpu.so in it or in its torch/"
    return 0
  fi
  local set stamp=.deps/libtorch/tril_set.txt have=''
  set=$(wanted_set)
  [[ ! -f $stamp ]] || have=$(<"$stamp")
  # The full set serves a CPU as well.
  [[ $have != "torch $TORCH_VERSION $set" && $have != "torch $TORCH_VERSION full" ]] || return 0
  if [[ ! -e .deps/libtorch ]] && python_has_torch; then
    say "using the torch of $(command -v python3)"
    return 0
  fi

  local python packages=("torch==$TORCH_VERSION") options=()
  python=$(python_with_pip)
  if [[ $set == cpu ]]; then
    # Enough for libtorch_cpu and a third of the size; libtorch_cuda.so comes without what it needs.
    packages+=('nvidia-cuda-runtime==13.2.*' 'nvidia-cuda-cupti==13.2.*')
    options+=(--no-deps)
  fi
  say "installing LibTorch $TORCH_VERSION ($set set) into .deps/libtorch"
  # Installed beside its place and renamed, so that an interrupted install is not taken for a complete one.
  rm -rf .deps/libtorch.partial
  "$python" -m pip install --quiet --no-compile "${options[@]}" \
    --target .deps/libtorch.partial "${packages[@]}"
  is_libtorch .deps/libtorch.partial/torch ||
    die "pip installed torch $TORCH_VERSION, but it holds no include/ and lib/libtorch_cpu.so"
  echo "torch $TORCH_VERSION $set" >.deps/libtorch.partial/tril_set.txt
  rm -rf .deps/libtorch
  mv .deps/libtorch.partial .deps/libtorch
}

# --- Python peers ----------------------------------------------------------------------------------------------------

install_peers() {
  local stamp=.deps/peers/tril_set.txt packages=("torch==$TORCH_VERSION" numpy safetensors tiktoken)
  [[ ! -f $stamp || "$(<"$stamp")" != "${packages[*]}" ]] || return 0
  say "installing ${packages[*]} into .deps/peers"
  # A venv holds its own path and cannot be renamed: the stamp, written last, says that it is complete.
  rm -f "$stamp"
  "$(python_with_pip)" -m venv .deps/peers
  .deps/peers/bin/python -m pip install --quiet "${packages[@]}"
  echo "${packages[*]}" >"$stamp"
}

# ---------------------------------------------------------------------------------------------------------------------

peers=no
for argument in "$@"; do
  case "$argument" in
    --peers) peers=yes ;;
    --fuzz) PACKAGES+=(clang-14 clang libclang-rt-14-dev) ;;
    -h | --help) usage; exit 0 ;;
    *) die "unknown argument '$argument'; known: --peers, --fuzz, --help" ;;
  esac
done

install_packages
mkdir -p .deps
# Two set-ups at once: the second waits, then finds nothing to do.
exec 9>.deps/lock
if command -v flock >/dev/null; then flock 9; fi
install_libtorch
[[ $peers == no ]] || install_peers
