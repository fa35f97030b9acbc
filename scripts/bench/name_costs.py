#!/usr/bin/env python3
"""What the name of a tale's hero costs a trained model, in nats: at its first mention and at later ones.

Fresh tales (another seed than training's) go through `tril inspect tokens`; a name is several tokens, of which the first
begins it and the rest follow from an earlier mention, if the model looks back.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import common


def mentions(tokens, name):
    """(cost of the first token, cost of the others) of each mention of the name."""
    text, spans = "", []
    for token in tokens:
        spans.append((len(text), len(text) + len(token["text"]), token.get("loss")))
        text += token["text"]
    for found in re.finditer(re.escape(name), text):
        costs = [cost for begin, end, cost in spans if begin < found.end() and end > found.start()]
        if None not in costs:  # the text's first token is not predicted
            yield costs[0], sum(costs[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="a run trained on the bundled tales")
    parser.add_argument("--tales", type=int, default=40)
    parser.add_argument("--seed", type=int, default=77, help="of the tales")
    parser.add_argument("--tril", help="the binary (default: build/release/tril)")
    arguments = parser.parse_args()
    binary = common.tril_binary(arguments.tril)

    first, later = [], []
    with tempfile.TemporaryDirectory(prefix="tril_names_") as folder:
        corpus, prompt = Path(folder) / "tales.txt", Path(folder) / "tale.txt"
        subprocess.run([binary, "corpus", "tales", "--bytes", str(1000 * arguments.tales), "--seed", str(arguments.seed),
                        "--out", str(corpus)], check=True, capture_output=True)
        for tale in corpus.read_text().split("\n\n")[: arguments.tales]:
            prompt.write_text("\n" + tale.strip() + "\n")
            done = subprocess.run([binary, "inspect", "tokens", arguments.run, "--json", "--prompt-file", str(prompt)],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stderr)
            costs = list(mentions(json.loads(done.stdout)["tokens"], tale.split()[0]))
            first += costs[:1]
            later += costs[1:]
    for what, costs in (("first mention", first), ("later mentions", later)):
        begin, rest = (statistics.mean(column) for column in zip(*costs))
        print(f"{what:15} {len(costs):4}  first token {begin:5.2f}  the rest of the name {rest:5.2f} nats")


if __name__ == "__main__":
    main()
