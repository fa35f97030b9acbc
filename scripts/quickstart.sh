#!/usr/bin/env bash
# From a fresh checkout to a generated tale: sets everything up, builds tril, trains a small model on the bundled
# corpus, evaluates it and lets it tell a tale. A second call goes on where the first one was.
#
# TRIL_RUN=DIR  the run folder (default: runs/quickstart)
# TRIL_JOBS=N   how many compilers run at once (default: see scripts/jobs.sh)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  '') ;;
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
  *) echo "quickstart: unknown argument '$1'; it takes none" >&2; exit 2 ;;
esac

run=${TRIL_RUN:-runs/quickstart}
tril=build/release/tril
heading() { printf '\n[%3d s] %s\n' "$SECONDS" "$*" >&2; }

heading 'Setting up packages and LibTorch (the first time: 1.3 GB to download)'
scripts/setup.sh

heading 'Building tril (the first time: some minutes)'
cmake --preset release >/dev/null
cmake --build --preset release --target tril -j "$(scripts/jobs.sh)"

if compgen -G "$run/checkpoints/step_*" >/dev/null; then
  heading "Going on with the run in $run (to begin anew: rm -r $run)"
else
  heading "Training a small model on the bundled tales, into $run"
fi
# auto: starts a new run, goes on with an interrupted one, and has nothing to do for a finished one.
"$tril" train --config configs/quickstart.json --run-dir "$run" --resume=auto

heading 'Evaluating it on tales it has not seen'
"$tril" evaluate "$run"

heading 'A tale of its own'
# A title, to be followed by its tale. An empty line stands after every tale of the corpus.
"$tril" generate "$run" --prompt $'Tamolin the Fox and the Stranger\n' --max-new-tokens 1000 --temperature 0.3 --seed 3 --stop $'\n\n'

heading "Done. Another tale:  $tril generate $run --prompt 'The Hare and the' --max-new-tokens 1000 --temperature 0.3 --stop \$'\\n\\n'"
