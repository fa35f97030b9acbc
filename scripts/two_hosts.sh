#!/usr/bin/env bash
# Trains on two "hosts": network namespaces that a pair of virtual cables joins, each with its own address, and compares
# the losses with those of one process. Also through Open MPI and by Slurm's variables, where these are there.
#
#   scripts/two_hosts.sh [--delay MILLISECONDS] [--rate MBIT]      needs root and iproute2
#
# TRIL_BUILD=DIR   the build (default: build/release)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() { printf 'two_hosts: %s\n' "$*" >&2; exit 2; }
delay='' rate=''
while [[ $# -gt 0 ]]; do
  case "$1" in
    --delay) delay=${2:?--delay needs milliseconds}; shift 2 ;;
    --rate) rate=${2:?--rate needs Mbit/s}; shift 2 ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) die "unknown argument '$1'; known: --delay, --rate, --help" ;;
  esac
done
tril=$PWD/${TRIL_BUILD:-build/release}/tril
[[ -x $tril ]] || die "$tril is not there; run scripts/test.sh --quick first"
[[ $(id -u) -eq 0 ]] || die "network namespaces need root"
command -v ip >/dev/null || die "there is no 'ip'; install iproute2"

work=$(mktemp -d -t tril_two_hosts_XXXXXX)
a=tril_a_$$ b=tril_b_$$
cleanup() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

ip netns add "$a"
ip netns add "$b"
ip link add "tva$$" type veth peer name "tvb$$"
ip link set "tva$$" netns "$a"
ip link set "tvb$$" netns "$b"
ip -n "$a" addr add 10.77.0.1/24 dev "tva$$"
ip -n "$b" addr add 10.77.0.2/24 dev "tvb$$"
for host in "$a" "$b"; do
  ip -n "$host" link set lo up
  device=$([[ $host == "$a" ]] && echo "tva$$" || echo "tvb$$")
  ip -n "$host" link set "$device" up
  if [[ -n $delay || -n $rate ]]; then
    ip netns exec "$host" tc qdisc add dev "$device" root netem ${delay:+delay "${delay}ms"} ${rate:+rate "${rate}mbit"}
  fi
done

common=(train --config configs/smoke.json --threads 1 --quiet --set train.steps=100 --set train.batch_size=12
  --set train.precision=fp32 --set model.dropout=0 --set train.log_interval=1)

compare() { # NAME: largest difference of losses to one process
  python3 - "$work/one/metrics.jsonl" "$work/$1/metrics.jsonl" "$1" <<'PYTHON'
import json, sys
def losses(path):
    return {r["step"]: r["loss"] for r in map(json.loads, open(path)) if "event" not in r}
one, other = losses(sys.argv[1]), losses(sys.argv[2])
assert one.keys() == other.keys() and len(one) == 100, "not the same steps"
worst = max(abs(one[s] - other[s]) for s in one)
print(f"{sys.argv[3]:<24} largest difference of 100 losses to one process: {worst:.2e}")
sys.exit(worst >= 1e-5)
PYTHON
}

"$tril" "${common[@]}" --run-dir "$work/one"
failed=0

start=$SECONDS
ip netns exec "$b" "$tril" "${common[@]}" --run-dir "$work/hosts" --rank 1 --world-size 2 --master 10.77.0.1:29500 &
ip netns exec "$a" "$tril" "${common[@]}" --run-dir "$work/hosts" --rank 0 --world-size 2 --master 10.77.0.1:29500
wait
echo "two hosts, flags: $((SECONDS - start)) s"
compare hosts || failed=1

for task in 1 0; do # as srun sets them
  host=$([[ $task == 0 ]] && echo "$a" || echo "$b")
  ip netns exec "$host" env SLURM_STEP_ID=0 SLURM_JOB_ID=12 SLURM_PROCID=$task SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 \
    SLURM_TASKS_PER_NODE='1(x2)' SLURM_JOB_NODELIST=10.77.0.1,10.77.0.2 \
    "$tril" "${common[@]}" --run-dir "$work/slurm_variables" &
done
wait
compare slurm_variables || failed=1

if command -v mpirun >/dev/null; then
  mpirun --allow-run-as-root --oversubscribe -n 3 "$tril" "${common[@]}" --run-dir "$work/mpirun"
  compare mpirun || failed=1
else
  echo "mpirun is not there: left out"
fi
torchrun=.deps/peers/bin/torchrun
if [[ -x $torchrun ]]; then
  for node in 1 0; do
    host=$([[ $node == 0 ]] && echo "$a" || echo "$b")
    ip netns exec "$host" "$torchrun" --nnodes 2 --node-rank $node --nproc-per-node 2 --master-addr 10.77.0.1 \
      --master-port 29600 --no-python "$tril" "${common[@]}" --run-dir "$work/torchrun" &
  done
  wait
  compare torchrun || failed=1
else
  echo "$torchrun is not there: left out (scripts/setup.sh --peers)"
fi
exit $failed
