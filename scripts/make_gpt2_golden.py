#!/usr/bin/env python3
"""Writes tests/golden/gpt2.json: ids that tiktoken gives for GPT-2's vocabulary, for tests/tokenizer/gpt2_test.cpp.

Short texts with their ids, and checksums over the ids of many strings that the test makes again with the same
generator: corner cases of the split pattern side by side, all scripts, code points of any kind.

    make_gpt2_golden.py VOCABULARY FOLDER [--check] [--text FILE]     needs tiktoken (scripts/setup.sh --peers)
"""

import argparse
import json
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "tests/golden/gpt2.json"
MASK = (1 << 64) - 1

ATOMS = [
    "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'r", "'v", "'l", "'", "\u2019s", "''", "don't", "I'll",
    " ", "  ", "   ", "\n", "\n\n", "\r", "\r\n", "\t", "\t\t", "\v", "\f", "\x1c", "\x85", "\u00a0", "\u1680",
    "\u180e", "\u2000", "\u2003", "\u2009", "\u200a", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
    "\ufeff", "a", "the", " of", "Hello", "WORLD", "\u00e9", "e\u0301", "na\u00efve", "\u00df", "\u0130", "\u01c5",
    "\u02b0", "\u0301", "\u0e01\u0e34", "\u0915\u094d\u0937", "\u65e5\u672c\u8a9e", "\u30c6\u30ad\u30b9\u30c8",
    "\ud55c\uad6d\uc5b4", "\u0627\u0644", "\u05e9\u05dc", "\u0440\u0443\u0441", "\U0001d400", "\U00020000",
    "0", "7", "2024", "3.14", "\u0663", "\u0967", "\uff11\uff12\uff13", "\u00b2", "\u00bd", "\u2167", "\u3007",
    "\u0bf0", "\U0001d7d8", "!", "?!", "...", "--", "_", "__init__", "(", ")", "{}", "=>", "/*", "<|endoftext|>",
    "http://", "@", "#", "$", "\u20ac", "\u2014", "\u2026", "\u3002", "\uff01", "\u00a9", "\u2603",
    "\U0001f600", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f",
    "\U0001f44d\U0001f3fd", "\u0000", "\u0001", "\u007f", "\u00ad", "\ue000", "\uffff", "\U0010ffff", "\ufffd",
]  # fmt: skip
BLOCKS = [
    (0x61, 0x7A), (0x41, 0x5A), (0xC0, 0x24F), (0x250, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x58F),
    (0x591, 0x5F4), (0x600, 0x6FF), (0x900, 0x97F), (0xB80, 0xBFF), (0xE00, 0xE7F), (0x1000, 0x109F),
    (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F), (0x1780, 0x17FF), (0x1E00, 0x1EFF), (0x2000, 0x206F),
    (0x2070, 0x218F), (0x2460, 0x24FF), (0x2C80, 0x2CFF), (0x3000, 0x303F), (0x3040, 0x30FF), (0x4E00, 0x9FFF),
    (0xA000, 0xA48C), (0xAC00, 0xD7A3), (0xFB50, 0xFDFF), (0xFF00, 0xFFEF), (0x10000, 0x100FA), (0x10330, 0x1034A),
    (0x11000, 0x1104D), (0x1D400, 0x1D7FF), (0x1F300, 0x1F64F), (0x1F900, 0x1F9FF), (0x20000, 0x2A6DF), (0x30, 0x39),
]  # fmt: skip
CASES = [
    "hello world", "Hello, world!", "I'll we'LL don't", "  two  spaces ", "a\u00a0b", "x\n\n\ny", "\uff11\uff12\uff13 \u00b2",
    "e\u0301", "\u65e5\u672c\u8a9e\u30c6\u30ad\u30b9\u30c8", "\t\ttabs\t", "a<|endoftext|>b", "", " ", "\n", "   ", "a  b   c",
    "'s", "''s", " 's", "'sand", "it's'll", "x'", "\r\n\r\n", "a\r\nb", "\u3000\u3000a", "1,234.56", "\u00bd cup",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 family", "na\u00efve caf\u00e9 \u2014 \u201cquotes\u201d", "def f(x):\n    return x  # \u03bb\n",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "supercalifragilisticexpialidocious" * 4, "=" * 200, " " * 150 + "x", "\n" * 90, "\u180ea", "\u200b b", "\x85x",
    "\u0e1b\u0e23\u0e30\u0e40\u0e17\u0e28\u0e44\u0e17\u0e22", "\u0939\u093f\u0928\u094d\u0926\u0940",
]  # fmt: skip


class Random:
    """A linear congruential generator (Knuth's constants), easily written in any language."""

    def __init__(self, seed):
        self.state = seed

    def draw(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & MASK
        return (self.state >> 33) % n


def scalar(code):
    return "x" if 0xD800 <= code <= 0xDFFF else chr(code)


def make_string(random):
    out = []
    for _ in range(1 + random.draw(12)):
        kind = random.draw(8)
        if kind < 5:
            out.append(ATOMS[random.draw(len(ATOMS))])
        elif kind == 5:
            first, last = BLOCKS[random.draw(len(BLOCKS))]
            for _ in range(1 + random.draw(6)):
                out.append(chr(first + random.draw(last - first + 1)))
        elif kind == 6:
            out.append(scalar(random.draw(0x110000)))
        else:
            out.append(chr(32 + random.draw(95)))
    return "".join(out)


def add(checksum, ids):
    """FNV-1a, one step per id."""
    for i in ids:
        checksum = ((checksum ^ i) * 0x100000001B3) & MASK
    return checksum


def gpt2(folder):
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks
    from tiktoken_ext.openai_public import r50k_pat_str

    ranks = data_gym_to_mergeable_bpe_ranks(
        vocab_bpe_file=str(folder / "vocab.bpe"), encoder_json_file=str(folder / "encoder.json")
    )
    return tiktoken.Encoding(
        "gpt2", explicit_n_vocab=50257, pat_str=r50k_pat_str, mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": 50256},
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--text", type=Path, help="a real text: only its number of tokens and checksum are kept")
    args = parser.parse_args()
    encoding = gpt2(args.vocabulary)
    golden = {"atoms": ATOMS, "blocks": BLOCKS}
    golden["cases"] = [{"text": text, "ids": encoding.encode_ordinary(text)} for text in CASES]

    # Strings by themselves: a checksum for each 50 000, an id no vocabulary has between two.
    random = Random(1)
    checksums = []
    for _ in range(20):
        checksum = 0xCBF29CE484222325
        for _ in range(50_000):
            checksum = add(checksum, encoding.encode_ordinary(make_string(random)))
            checksum = add(checksum, [0xFFFFFFFF])
        checksums.append(f"{checksum:016x}")
    golden["strings"] = {"seed": 1, "per_checksum": 50_000, "checksums": checksums}

    # One long text of the same stuff.
    random = Random(2)
    text = "".join(make_string(random) for _ in range(400_000))
    ids = encoding.encode_ordinary(text)
    golden["text"] = {
        "seed": 2, "strings": 400_000, "bytes": len(text.encode()), "tokens": len(ids),
        "checksum": f"{add(0xCBF29CE484222325, ids):016x}",
    }  # fmt: skip
    if args.text:
        text = args.text.read_bytes().decode()
        ids = encoding.encode_ordinary(text)
        golden[args.text.stem] = {"tokens": len(ids), "checksum": f"{add(0xCBF29CE484222325, ids):016x}"}

    content = json.dumps(golden, separators=(",", ":")) + "\n"
    if args.check:
        same = TARGET.read_text(encoding="utf-8") == content
        print(f"{TARGET.name} is {'what' if same else 'NOT what'} tiktoken gives")
        return 0 if same else 1
    TARGET.write_text(content, encoding="utf-8")
    print(f"{TARGET.name}: {len(content)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
