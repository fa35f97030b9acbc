#!/usr/bin/env python3
"""Compares tril's GPT-2 ids with tiktoken's and Hugging Face's on much text; exits 1 when an id differs.

    check_tokenizers.py VOCABULARY_FOLDER [--tril PROGRAM] [--megabytes 100] [--strings 1000000] [--seed 1]

The text: runs of characters of all scripts, emoji with joiners, combining marks, all Unicode spaces, CR/LF mixes,
digits of all scripts, Python's own library as code, and strings made to hit the corners of the split pattern. Needs
numpy, tiktoken and tokenizers (PyPI). Hugging Face is compared where its Unicode classes are tiktoken's: the code
points that differ are listed and left out of its text.
"""

import argparse
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from make_gpt2_golden import ATOMS, BLOCKS, Random, gpt2, make_string  # noqa: E402


def scripts_text(rng, n_chars):
    """Runs of characters of one block, with spaces, line ends and combining marks between."""
    blocks = np.array(BLOCKS + [(0x300, 0x36F), (0x1F3FB, 0x1F3FF), (0x0, 0x7F), (0x80, 0x33FF), (0xE000, 0x2FFFF)])
    n_runs = n_chars // 4
    which = rng.integers(len(blocks), size=n_runs)
    lengths = rng.integers(1, 9, size=n_runs)
    first = np.repeat(blocks[which, 0], lengths)
    last = np.repeat(blocks[which, 1], lengths)
    codes = first + (rng.random(len(first)) * (last - first + 1)).astype(np.int64)
    codes[(codes >= 0xD800) & (codes <= 0xDFFF)] = 0x20
    spaces = np.array([0x20, 0x20, 0x20, 0x20, 0xA, 0xA, 0xD, 0x9, 0xA0, 0x3000, 0x2003, 0x200D, 0x85, 0x27])
    at = rng.random(len(codes)) < 0.15
    codes[at] = spaces[rng.integers(len(spaces), size=int(at.sum()))]
    return codes.astype("<u4").tobytes().decode("utf-32-le")


def atoms_text(rng, n_atoms):
    return "".join(map(ATOMS.__getitem__, rng.integers(len(ATOMS), size=n_atoms)))


def code_text(max_bytes):
    parts, size = [], 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        try:
            parts.append(path.read_bytes().decode())
        except UnicodeDecodeError:
            continue
        size += len(parts[-1])
        if size > max_bytes:
            break
    return "".join(parts)


def mixed_text(seed, n_bytes):
    rng = np.random.default_rng(seed)
    parts, size = [code_text(n_bytes // 4)], 0
    size = len(parts[0].encode())
    while size < n_bytes:
        parts += [scripts_text(rng, 2_000_000), atoms_text(rng, 400_000)]
        size += len(parts[-1].encode()) + len(parts[-2].encode())
    return "".join(parts)


class Tril:
    def __init__(self, program, folder):
        self.command = [program, "tokenizer"]
        self.options = ["--tokenizer", "gpt2", "--vocab", str(folder)]

    def encode(self, data, *options):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            command = [*self.command, "encode", *self.options, *options, file.name]
            out = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        return np.fromstring(out.decode(), dtype=np.int64, sep=" ")

    def decode(self, ids):
        text = " ".join(map(str, ids))
        command = [*self.command, "decode", *self.options, "-"]
        return subprocess.run(command, check=True, input=text.encode(), stdout=subprocess.PIPE).stdout


def first_difference(ours, theirs, encoding):
    n = min(len(ours), len(theirs))
    differ = np.flatnonzero(ours[:n] != theirs[:n])
    at = int(differ[0]) if len(differ) else n
    around = slice(max(0, at - 4), at + 6)
    return (
        f"at token {at}: tril {ours[around].tolist()} {encoding.decode_bytes(ours[around].tolist())!r}, "
        f"other {theirs[around].tolist()} {encoding.decode_bytes(theirs[around].tolist())!r}"
    )


def compare(name, ours, theirs, encoding):
    same = len(ours) == len(theirs) and bool((ours == theirs).all())
    print(f"{name}: {len(ours)} tokens, {'0 differences' if same else first_difference(ours, theirs, encoding)}", flush=True)
    return same


def huggingface(folder):
    """The published files in Hugging Face's own BPE, and the code points whose class is another than tiktoken's."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "encoder.json"), str(folder / "vocab.bpe")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def other_classes():
    from tokenizers import pre_tokenizers

    from make_unicode_tables import tiktoken_classes

    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs = tiktoken_classes()
    differ = []
    for code in range(0x110000):
        if 0xD800 <= code <= 0xDFFF:
            continue
        kind = "S"
        for letter, name in (("a", "L"), ("1", "N"), ("!", "O")):
            if len(level.pre_tokenize_str(letter + chr(code))) == 1:
                kind = name
        if kind != theirs[code]:
            differ.append(code)
    return differ


def ranges_of(codes):
    found = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("--tril", default="build/release/tril")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--strings", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", type=Path, action="append", default=[], help="another text to compare on")
    parser.add_argument("--no-huggingface", action="store_true")
    args = parser.parse_args()
    tril = Tril(args.tril, args.vocabulary)
    encoding = gpt2(args.vocabulary)
    good = True

    def tiktoken_ids(text):
        return np.array(encoding.encode_ordinary(text), dtype=np.int64)

    for path in args.text:
        data = path.read_bytes()
        good &= compare(path.name, tril.encode(data), tiktoken_ids(data.decode()), encoding)

    if args.megabytes:
        start = time.time()
        text = mixed_text(args.seed, args.megabytes * 1_000_000)
        data = text.encode()
        print(f"mixed text of {len(data)} bytes made in {time.time() - start:.0f} s", flush=True)
        ours = tril.encode(data)
        good &= compare("mixed text, tiktoken", ours, tiktoken_ids(text), encoding)
        back = encoding.decode_bytes(ours.tolist()) == data
        print(f"mixed text comes back: {back}")
        good &= back

    if args.strings:
        # The program sees one text, the strings joined by a special token: it ends a piece as a text's end does.
        marker = "<|endoftext|>"
        random = Random(args.seed + 1000)
        strings = [make_string(random).replace(marker, "") for _ in range(args.strings)]
        ours = tril.encode("".join(s + marker for s in strings).encode(), "--allow-special")
        batch = encoding.encode_ordinary_batch(strings, num_threads=2)
        theirs = np.array([i for ids in batch for i in (*ids, encoding.eot_token)], dtype=np.int64)
        good &= compare(f"{args.strings} strings, tiktoken", ours, theirs, encoding)

    # Not UTF-8: tiktoken's own rule for bytes (from the first invalid byte on there is one piece) is private and
    # meant for text cut inside a character; the ids are compared where that is what happened.
    rng = np.random.default_rng(args.seed)
    n_same, n_cut = 0, 60
    for _ in range(n_cut):
        data = atoms_text(rng, 6).encode() + "\u65e5".encode()[: rng.integers(1, 3)]
        n_same += tril.encode(data).tolist() == encoding._encode_bytes(data)
    print(f"texts cut inside a character: {n_same} of {n_cut} as tiktoken's _encode_bytes")
    data = rng.integers(0, 256, 2_000_000).astype("u1").tobytes()
    back = tril.decode(tril.encode(data)) == data
    print(f"random bytes come back: {back}")
    good &= back

    if not args.no_huggingface:
        differ = other_classes()
        shown = ", ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in ranges_of(differ))
        print(f"{len(differ)} code points have another class in tokenizers: {shown}")
        text = mixed_text(args.seed + 1, min(args.megabytes, 20) * 1_000_000)
        text = text.translate(dict.fromkeys(differ, "x"))
        ours = tril.encode(text.encode())
        theirs = np.array(huggingface(args.vocabulary).encode(text).ids, dtype=np.int64)
        good &= compare("mixed text, tokenizers", ours, theirs, encoding)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
