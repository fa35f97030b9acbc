#!/usr/bin/env python3
"""Writes tests/golden/bpe_trainer.json: the merges that Hugging Face's `tokenizers` learns from texts that
tests/tokenizer/bpe_trainer_test.cpp makes again with the same generator.

    make_bpe_golden.py [--check]          needs tokenizers (PyPI)
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from make_gpt2_golden import Random, make_string  # noqa: E402

TARGET = Path(__file__).resolve().parent.parent / "tests/golden/bpe_trainer.json"
SYLLABLES = ["ka", "to", "mi", "ra", "sen", "lo", "ti", "vu", "ne", "ha", "\u00e9l", "\u0436\u0438", "\u65e5", "ing", "est"]


def make_words(random):
    """A line of words with a skewed spread of syllables, so that merges have a clear order and many ties."""
    words = []
    for _ in range(1 + random.draw(12)):
        word = ""
        for _ in range(1 + random.draw(4)):
            word += SYLLABLES[min(random.draw(len(SYLLABLES)), random.draw(len(SYLLABLES)))]
        words.append(word)
    return " ".join(words) + "\n"


def learn(texts, vocab_size):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=2, show_progress=False, special_tokens=[],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    random = Random(11)
    words = [make_words(random) for _ in range(3000)]
    random = Random(12)
    strings = [make_string(random) for _ in range(3000)]
    golden = {
        "syllables": SYLLABLES,
        "words": {"seed": 11, "texts": 3000, "vocab_size": 700, "merges": learn(words, 700)},
        "strings": {"seed": 12, "texts": 3000, "vocab_size": 900, "merges": learn(strings, 900)},
    }
    content = json.dumps(golden, separators=(",", ":")) + "\n"
    if args.check:
        same = TARGET.read_text(encoding="utf-8") == content
        print(f"{TARGET.name} is {'what' if same else 'NOT what'} tokenizers learns")
        return 0 if same else 1
    TARGET.write_text(content, encoding="utf-8")
    print(f"{TARGET.name}: {len(content)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
