#!/usr/bin/env python3
"""Time from the start of the process to the end of the first training step: tril, tril with an empty text cache, and the
plain PyTorch peer. Prints a Markdown table of medians.

The end of the first step is when its line stands in metrics.jsonl (train.log_interval=1), seen by polling each
millisecond; for the peer, when it prints its result after one step.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common


def start_tril(binary, config, folder, cache):
    """Seconds until the first step has been logged."""
    run = Path(folder) / "run"
    command = [binary, "train", "--config", config, "--run-dir", run, "--overwrite", "--quiet"]
    # Another run's line must not be taken for this one's.
    metrics = run / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, env=os.environ | {"TRIL_CACHE": str(cache)}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        text=True)
    common.wait_for(lambda: common.metrics_lines(run), process)
    elapsed = time.perf_counter() - begin
    common.stop(process)
    return elapsed


def start_peer(shape, threads):
    command = [common.PEER_PYTHON, Path(__file__).parent / "peer_train.py", "--steps", "1", "--threads", str(threads)]
    for key, value in (shape | {"log_interval": 1}).items():
        command += ["--" + key.replace("_", "-"), str(value)]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        if not process.stdout.readline():
            sys.exit("peer_train.py printed nothing")
        return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=common.SHAPES, default="small")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=common.available_cores())
    parser.add_argument("--data", default="tales", help="tril's data.train")
    parser.add_argument("--tril", help="the binary (default: build/release/tril)")
    arguments = parser.parse_args()
    binary, shape = common.tril_binary(arguments.tril), common.SHAPES[arguments.shape]
    data = arguments.data if arguments.data == "tales" else str(Path(arguments.data).resolve())

    warm, cold, peer = [], [], []
    with tempfile.TemporaryDirectory(prefix="tril_startup_") as folder:
        config = common.write_config(
            folder, common.tril_config(shape | {"log_interval": 1}, arguments.threads, data=data))
        for repeat in range(arguments.repeats):
            cache = Path(folder) / f"cache_{repeat}"
            cold.append(start_tril(binary, config, folder, cache))
            warm.append(start_tril(binary, config, folder, cache))
            if common.PEER_PYTHON.exists():
                peer.append(start_peer(shape, arguments.threads))

    print("| start to the end of the first step | median | range |")
    print("| --- | ---: | ---: |")
    for name, seconds in (("tril", warm), ("tril, empty text cache", cold), ("PyTorch", peer)):
        if seconds:
            print(f"| {name} | {statistics.median(seconds):.2f} s | {min(seconds):.2f} to {max(seconds):.2f} s |")
    print(f"\n{common.machine()}, {arguments.threads} threads; shape {arguments.shape}; {arguments.repeats} starts each; "
          f"{common.tril_version(binary)}")


if __name__ == "__main__":
    main()
