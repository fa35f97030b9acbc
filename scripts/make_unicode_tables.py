#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_ranges.inc: the code points of \\p{L}, \\p{N} and \\s, which GPT-2's split pattern names.

The source is the Unicode Character Database, version 16, as PyPI's `unicodedata2` 16.0.0 has it (a system's Python or
PCRE2 may know another). It is the version of tiktoken 0.14, and tiktoken decides: with --tiktoken, every code point is
put to tiktoken itself (a vocabulary made so that its ids show where it cuts), and the differences to the database are
listed.

    make_unicode_tables.py              writes the file
    make_unicode_tables.py --check      exits 1 when the file is another
    make_unicode_tables.py --tiktoken   exits 1 when tiktoken has another class for some code point
"""

import argparse
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "src/tokenizer/unicode_ranges.inc"
UNICODE = "16.0.0"
LAST = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)
# \s is the property White_Space (UCD, PropList.txt): closed since Unicode 6.3.
SPACES = [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]


def database_classes():
    """One letter per code point: L, N, S or O; and the Unicode version."""
    import unicodedata2

    classes = []
    for code in range(LAST + 1):
        major = unicodedata2.category(chr(code))[0]
        classes.append("S" if code in SPACE_SET else major if major in "LN" else "O")
    return classes, unicodedata2.unidata_version


SPACE_SET = frozenset(SPACES)


def tiktoken_classes():
    """The same as tiktoken's pattern engine sees it; surrogates, which no text can hold, are O."""
    import tiktoken
    from tiktoken_ext.openai_public import r50k_pat_str

    # "a", "1" and "!" merge with the first byte of whatever stands in the same piece, and with nothing else.
    ranks = {bytes([b]): b for b in range(256)}
    for probe in b"a1!":
        for first in range(256):
            ranks[bytes([probe, first])] = len(ranks)
    probe = tiktoken.Encoding("probe", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={})
    classes = []
    for code in range(LAST + 1):
        if code in SURROGATES:
            classes.append("O")
            continue
        found = "S"
        for letter, kind in (("a", "L"), ("1", "N"), ("!", "O")):
            if probe.encode_ordinary(letter + chr(code))[0] >= 256:
                found = kind
        classes.append(found)
    return classes


def ranges(classes, kind):
    """[(first, last)] of one kind."""
    found = []
    for code, each in enumerate(classes):
        if each != kind:
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def render(classes, version):
    lines = [
        f"// Made by scripts/make_unicode_tables.py from Unicode {version}: first and last code point of each range.",
    ]
    for kind, name in (("L", "kLetterRanges"), ("N", "kNumberRanges"), ("S", "kSpaceRanges")):
        lines.append(f"constexpr CodePointRange {name}[] = {{")
        row = "   "
        for first, last in ranges(classes, kind):
            item = f" {{0x{first:X}, 0x{last:X}}},"
            if len(row) + len(item) > 100:
                lines.append(row)
                row = "   "
            row += item
        lines += [row, "};"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tiktoken", action="store_true")
    args = parser.parse_args()
    classes, version = database_classes()
    if args.tiktoken:
        theirs = tiktoken_classes()
        differ = [c for c in range(LAST + 1) if classes[c] != theirs[c]]
        print(f"Unicode {version}: {len(differ)} of {LAST + 1} code points have another class in tiktoken")
        for code in differ[:40]:
            print(f"U+{code:04X}: database {classes[code]}, tiktoken {theirs[code]}")
        return 1 if differ else 0
    if version != UNICODE:
        sys.exit(f"expected Unicode {UNICODE}, unicodedata2 has {version}: pip install unicodedata2=={UNICODE}")
    text = render(classes, version)
    if args.check:
        same = TARGET.read_text(encoding="ascii") == text
        print(f"{TARGET.name} is {'what' if same else 'NOT what'} the script makes from Unicode {version}")
        return 0 if same else 1
    TARGET.write_text(text, encoding="ascii")
    print(f"{TARGET.name}: Unicode {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
