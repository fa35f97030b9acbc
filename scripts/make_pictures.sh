#!/usr/bin/env bash
# Makes the pictures of the README and of docs/ from a trained run, with the tool itself.
#
#   scripts/make_pictures.sh [RUN] [TEXT]     RUN: runs/quickstart; TEXT: a tale that mentions its hero again and again
#
# docs/images/heads.svg      every head on the text
# docs/images/induction.svg  the head whose induction score stands highest above chance; its numbers go to stdout
# docs/images/loss.svg       the loss of the run
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

run=${1:-runs/quickstart}
text=${2:-}
tril=${TRIL:-build/release/tril}
out=docs/images
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

prompt=()
if [[ -n $text ]]; then prompt=(--prompt "$text"); fi
"$tril" inspect attention "$run" "${prompt[@]}" --out "$out/heads.svg" --out "$work/attention.json"
# The best head: induction above chance, else mention above chance.
read -r block head < <(python3 - "$work/attention.json" <<'PYTHON'
import json, sys
heads = json.load(open(sys.argv[1], encoding="utf-8"))["heads"]
gain = lambda h: max(h["induction"] - h["induction_by_chance"], h["earlier_mention"] - h["mention_by_chance"])
best = max(heads, key=gain)
print(best["block"], best["head"])
names = ("role", "induction", "induction_by_chance", "earlier_mention", "mention_by_chance", "repeats")
print({name: best[name] for name in names}, file=sys.stderr)
PYTHON
)
"$tril" inspect attention "$run" "${prompt[@]}" --block "$block" --head "$head" --out "$out/induction.svg"
"$tril" report "$run" --svg "$work/figures"
cp "$work/figures/loss.svg" "$out/loss.svg"
ls -l "$out"
