#!/usr/bin/env bash
# Checks and measures tril on this machine's GPU, within 10 minutes, and prints one table: the hidden GPU tests, a run
# with an exact number of steps before and after a resume, then GPT-2 124M at T 1024 against plain PyTorch, eager and
# under torch.compile, in the same precision.
#
#   TRIL_CUDA=1 scripts/setup.sh --peers && cmake --preset cuda && cmake --build --preset cuda   (once)
#   scripts/bench/gpu.sh
#
# TRIL_BUILD=DIR    the build (default: build/cuda)
# PEER_PYTHON=FILE  a Python with a CUDA torch (default: .deps/peers/bin/python)
# BATCH=N           windows of 1024 tokens per step (default: 16)
# OUT=DIR           where the JSON results, logs and the trace go (default: a new temporary folder, named at the end)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

case "${1:-}" in
  '') ;;
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
  *) echo "gpu.sh: unknown argument '$1'; it takes none" >&2; exit 2 ;;
esac

build=${TRIL_BUILD:-build/cuda}
tril=$build/tril
python=${PEER_PYTHON:-.deps/peers/bin/python}
batch=${BATCH:-16}
readonly CONTEXT=1024

if ! nvidia-smi -L >/dev/null 2>&1; then
  echo "gpu.sh: nvidia-smi finds no NVIDIA GPU here; nothing was measured" >&2
  exit 2
fi
if [[ ! -x $tril ]]; then
  echo "gpu.sh: $tril is not there. Once: TRIL_CUDA=1 scripts/setup.sh --peers, then cmake --preset cuda and" \
    "cmake --build --preset cuda" >&2
  exit 2
fi
out=${OUT:-$(mktemp -d -t tril_gpu_XXXXXX)}
mkdir -p "$out"
failures=0

# step NAME SECONDS COMMAND...: runs it with a time limit, its output in $out/NAME.txt; a failure is counted.
step() {
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  if timeout --kill-after=5 "$limit" "$@" >"$out/$name.txt" 2>"$out/$name.err"; then
    printf '%-28s ok      %4d s\n' "$name" $((SECONDS - begin)) >&2
  else
    printf '%-28s FAILED  %4d s, exit %d: %s\n' "$name" $((SECONDS - begin)) $? "$(tail -n 1 "$out/$name.err")" >&2
    failures=$((failures + 1))
  fi
}

peer() { # NAME SECONDS PRECISION ...
  local name=$1 limit=$2 precision=$3
  shift 3
  step "$name" "$limit" "$python" scripts/bench/peer_train.py --device cuda --precision "$precision" --n-embed 768 \
    --context $CONTEXT --batch "$batch" --blocks 12 --heads 12 --vocab 50304 --log-interval 5 --steps 1000000 \
    --seconds 25 "$@"
}

ours() { # NAME PRECISION ...
  local name=$1 precision=$2
  shift 2
  step "$name" 45 "$tril" bench --device cuda --shape gpt2_124m --set "model.context_length=$CONTEXT" \
    --set "train.batch_size=$batch" --precision "$precision" --seconds 15 --new-tokens 200 --json "$@"
}

step doctor 20 "$tril" doctor --device cuda --json
if [[ -x $build/tests/tril_tests ]]; then
  step tests 60 "$build/tests/tril_tests" '[cuda]'
  if grep -q '^SKIPPED: ' "$out/tests.txt"; then
    echo "the GPU tests were skipped: LibTorch finds no CUDA device" >&2
    failures=$((failures + 1))
  fi
fi
smoke=("$tril" train --device cuda --run-dir "$out/smoke")
step train 30 "${smoke[@]}" --config configs/smoke.json --set train.steps=10
step resume 30 "${smoke[@]}" --resume --set train.steps=20
step generate 20 "$tril" generate "$out/smoke" --device cuda --max-new-tokens 50
gpus=$(nvidia-smi -L | wc -l)
if [[ $gpus -ge 2 ]]; then
  step several_gpus 60 "$tril" launch --nproc "$gpus" -- train --device cuda --run-dir "$out/several" \
    --config configs/smoke.json --set "train.batch_size=$((4 * gpus))" --set distributed.check_interval=1
  step several_gpus_bench 75 "$tril" launch --nproc "$gpus" -- bench --device cuda --shape gpt2_124m --seconds 15 --json \
    --set "model.context_length=$CONTEXT" --set "train.batch_size=$((batch * gpus))" --precision bf16
else
  echo "one GPU here: several GPUs (NCCL) are not checked" >&2
fi
ours tril_bf16 bf16 --profile "$out/trace.json"
ours tril_graph_bf16 bf16 --set train.cuda_graph=true
ours tril_fp16 fp16
ours tril_fp32 fp32
if [[ -x $python ]]; then
  peer pytorch_bf16 60 bf16
  peer pytorch_compile_bf16 110 bf16 --compile
  peer pytorch_compile_fp32 90 fp32 --compile
else
  echo "$python is not there: no peers (scripts/setup.sh --peers)" >&2
fi

echo
python3 scripts/bench/gpu_table.py "$out" "$batch" "$CONTEXT"
echo
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -n 1
echo "$failures failed; $SECONDS s; details in $out"
exit $((failures > 0))
