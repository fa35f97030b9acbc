#!/usr/bin/env python3
"""The peak memory that `tril train --dry-run` estimates against the one measured, for several configs.

Measured: the peak resident set of the training process after a few steps, as the kernel reports it when the process
ends. Prints a Markdown table and exits 1 when an estimate is further off than --tolerance.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import common

# What moves the estimate: the logits (V), the attention matrices (reference), the moments, the activations (B).
CASES = {
    "small": (common.SHAPES["small"], []),
    "small, reference attention": (common.SHAPES["small"], ["model.attention=reference"]),
    "small, batch 256": (common.SHAPES["small"] | {"batch": 256}, []),
    "small, evaluated": (common.SHAPES["small"], ["data.validation_fraction=0.1", "train.eval_interval=2"]),
    "medium": (common.SHAPES["medium"], []),
    "medium, reference attention": (common.SHAPES["medium"], ["model.attention=reference"]),
    "medium, bf16": (common.SHAPES["medium"], ["train.precision=bf16"]),
    "medium, accumulation 4": (common.SHAPES["medium"] | {"batch": 4}, ["train.accumulation=4"]),
    "small, 2048 tokens, evaluated, bf16": (
        common.SHAPES["small"] | {"vocab": 2048},
        ["data.validation_fraction=0.1", "train.eval_interval=2", "train.precision=bf16"]),
    "gpt2_124m": (common.SHAPES["gpt2_124m"], []),
}

UNITS = {"B": 1, "bytes": 1}
for power, letter in enumerate("kMGT", start=1):
    UNITS |= {f"{letter}B": 1000**power, f"{letter}iB": 1024**power}
    UNITS |= {f"{letter.upper()}B": 1000**power, f"{letter.upper()}iB": 1024**power}
PEAK = re.compile(r"peak\b[^\n]*?([0-9][0-9.,]*)\s*([kKMGT]?i?B|bytes)\b", re.IGNORECASE)


def estimated_bytes(command):
    """The last amount that --dry-run prints on a line with the word "peak"."""
    done = subprocess.run(command + ["--dry-run"], capture_output=True, text=True)
    output = done.stdout + done.stderr
    found = PEAK.findall(output)
    if done.returncode != 0 or not found:
        sys.exit(f"{' '.join(map(str, command))} --dry-run: exit {done.returncode}, no estimated peak in:\n{output}")
    amount, unit = found[-1]
    return float(amount.replace(",", "")) * UNITS[unit]


def measured_bytes(command):
    """The peak resident set of the whole run, in bytes (ru_maxrss is in KiB on Linux)."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            sys.exit(f"{' '.join(map(str, command))}: exit {process.returncode}\n{errors.read()}")
    return usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose name contains this")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--tolerance", type=float, default=0.15, help="allowed |estimated / measured - 1|")
    parser.add_argument("--threads", type=int, default=common.available_cores())
    parser.add_argument("--tril", help="the binary (default: build/release/tril)")
    arguments = parser.parse_args()
    binary = common.tril_binary(arguments.tril)

    worst = 0.0
    print("| config | estimated | measured | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for name, (shape, settings) in CASES.items():
        if arguments.only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="tril_memory_") as folder:
            config = common.write_config(folder, common.tril_config(shape, arguments.threads, steps=arguments.steps))
            command = [str(binary), "train", "--config", str(config), "--run-dir", str(Path(folder) / "run")]
            for setting in settings:
                command += ["--set", setting]
            estimated, measured = estimated_bytes(command), measured_bytes(command)
        worst = max(worst, abs(estimated / measured - 1))
        print(f"| {name} | {estimated / 1e6:,.0f} MB | {measured / 1e6:,.0f} MB | {estimated / measured:.2f} |", flush=True)
    print(f"\n{common.machine()}, {arguments.threads} threads, {arguments.steps} steps each; "
          f"{common.tril_version(binary)}. Furthest off: {100 * worst:.0f} %")
    return 1 if worst > arguments.tolerance else 0


if __name__ == "__main__":
    sys.exit(main())
