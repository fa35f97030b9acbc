#!/usr/bin/env python3
"""What train.activation_checkpointing saves and costs: the same run with and without, in turn. Prints a Markdown table.

Loss: equal means that every logged loss and the trained weights are the same bytes. Memory: the peak resident set of the
whole process, and of it what grows with the batch, the activations (peak at the shape's batch less the peak at a quarter of
it, by 4/3). Time: seconds of a step, median; the ratio is taken within a round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import common

SETTINGS = {"kept": "train.activation_checkpointing=false", "computed again": "train.activation_checkpointing=true"}


def train(binary, folder, shape, arguments, setting):
    """(seconds of a step, peak bytes, [losses], weights) of one run."""
    run = Path(folder) / "run"
    config = common.tril_config(shape | {"log_interval": 1}, arguments.threads, steps=arguments.steps)
    command = [binary, "train", "--config", common.write_config(folder, config), "--run-dir", run, "--quiet", "--overwrite"]
    for word in [setting, *arguments.set]:
        command += ["--set", word]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            sys.exit(f"exit {process.returncode}: {errors.read()}")
    lines = common.metrics_lines(run)
    tokens = shape["batch"] * shape["context"]
    seconds = common.median_after_warm_up([tokens / line["tokens_per_second"] for line in lines])
    weights = next((run / "checkpoints").glob("step_*/model.safetensors")).read_bytes()
    return seconds, usage.ru_maxrss * 1024, [line["loss"] for line in lines], weights


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=common.SHAPES, default="medium")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=common.available_cores())
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--tril", help="the binary (default: build/release/tril)")
    a = parser.parse_args()
    binary = common.tril_binary(a.tril)
    shape = common.SHAPES[a.shape]
    quarter = shape | {"batch": shape["batch"] // 4}
    seconds = {name: [] for name in SETTINGS}
    peaks, activations, results = {}, {}, {}
    with tempfile.TemporaryDirectory(prefix="tril_recompute_") as folder:
        for _ in range(a.repeats):
            for name, setting in SETTINGS.items():
                taken, peaks[name], *results[name] = train(binary, folder, shape, a, setting)
                seconds[name].append(taken)
        for name, setting in SETTINGS.items():
            activations[name] = (peaks[name] - train(binary, folder, quarter, a, setting)[1]) * 4 / 3
    print("| activations | ms/step | range | peak memory | activations |\n| --- | ---: | ---: | ---: | ---: |")
    for name, values in seconds.items():
        low, median, high = (1000 * f(values) for f in (min, statistics.median, max))
        print(f"| {name} | {median:,.0f} | {low:,.0f} to {high:,.0f} | {peaks[name] / 1e6:,.0f} MB "
              f"| {activations[name] / 1e6:,.0f} MB |")
    kept, again = SETTINGS
    ratios = [y / x for x, y in zip(seconds[kept], seconds[again])]
    same = "equal bit for bit" if results[kept] == results[again] else "NOT EQUAL"
    print(f"\nlosses and weights after {a.steps} steps: {same}; time {statistics.median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f}), activations {activations[again] / activations[kept]:.2f}")
    print(f"{common.machine()}, {a.threads} threads; {common.tril_version(binary)}")


if __name__ == "__main__":
    main()
