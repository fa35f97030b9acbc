#!/usr/bin/env bash
# Brings tinyshakespeare (1,115,394 bytes) to data/tinyshakespeare.txt, which the shakespeare_* configs train on.
# Taken from $TRIL_SHARED or ../shared/data where it is there already, else downloaded from where it was published.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly URL=https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt
readonly SHA256=86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed
readonly TARGET=data/tinyshakespeare.txt

is_right() { [[ -f $1 ]] && echo "$SHA256  $1" | sha256sum --check --status; }

if is_right "$TARGET"; then
  echo "$TARGET is there already"
  exit 0
fi
mkdir -p data
partial=$(mktemp data/.tinyshakespeare.XXXXXX)
trap 'rm -f "$partial"' EXIT

source=$URL
for folder in ${TRIL_SHARED:+"$TRIL_SHARED" "$TRIL_SHARED/data"} ../shared/data; do
  if is_right "$folder/tinyshakespeare.txt"; then
    source=$folder/tinyshakespeare.txt
    break
  fi
done
download() {
  if command -v curl >/dev/null; then
    curl --fail --silent --show-error --location --retry 3 --output "$partial" "$URL"
  else
    wget --no-verbose --tries 3 --output-document "$partial" "$URL"
  fi
}

if [[ $source != "$URL" ]]; then
  cp "$source" "$partial"
elif ! download; then
  echo "fetch: $URL did not come; bring it to $TARGET by hand and run this again to check it" >&2
  exit 1
fi

if ! is_right "$partial"; then
  echo "fetch: what came from $source is another text: expected SHA-256 $SHA256, found" \
    "$(sha256sum "$partial" | cut -d ' ' -f 1); nothing was written" >&2
  exit 1
fi
chmod 644 "$partial"
mv "$partial" "$TARGET"
echo "$TARGET: from $source"
