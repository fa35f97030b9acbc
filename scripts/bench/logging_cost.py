#!/usr/bin/env python3
"""What logging costs: the same short run with a line and a record for every step (metrics.jsonl and TensorBoard), and
with one at the end only, in turn. Prints a Markdown table; the ratio is taken within a round.

The smallest shape is where logging weighs most: its step is the shortest. Time is elapsed_seconds of the last record:
from the first step to the last, start-up not counted.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

import common


def seconds(binary, config, folder, steps, settings):
    run = Path(folder) / "run"
    command = [binary, "train", "--config", config, "--run-dir", run, "--overwrite"]
    for setting in [f"train.steps={steps}", *settings]:
        command += ["--set", setting]
    with open(Path(folder) / "terminal.txt", "w", encoding="utf-8") as terminal:
        subprocess.run([str(word) for word in command], stdout=terminal, stderr=terminal, check=True)
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["elapsed_seconds"] for line in lines if "elapsed_seconds" in line][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=common.available_cores())
    parser.add_argument("--tril", help="the binary (default: build/release/tril)")
    a = parser.parse_args()
    binary = common.tril_binary(a.tril)
    shape = common.SHAPES["small"]
    rows = {"every step": [], "the last step": []}
    with tempfile.TemporaryDirectory(prefix="tril_bench_") as folder:
        config = common.write_config(folder, common.tril_config(shape, a.threads))
        settings = {"every step": ["train.log_interval=1", "logging.tensorboard=true"],
                    "the last step": [f"train.log_interval={a.steps}"]}
        for i in range(a.repeats):
            for name in sorted(settings, reverse=i % 2 == 1):  # neither is always first
                rows[name].append(seconds(binary, config, folder, a.steps, settings[name]))
    ratios = [one / other for one, other in zip(*rows.values())]
    print("| logged | ms/step, median | range |\n| --- | ---: | ---: |")
    for name, values in rows.items():
        per_step = [1000 * value / a.steps for value in values]
        print(f"| {name} | {statistics.median(per_step):.2f} | {min(per_step):.2f} to {max(per_step):.2f} |")
    print(f"\nratio: {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}, {a.repeats} rounds")


if __name__ == "__main__":
    main()
