#!/usr/bin/env python3
"""Wall time to the classic recipe's loss on tinyshakespeare: the classic recipe, 2000 steps of plain PyTorch
(peer_train.py) and of tril (shakespeare_char_cpu), against a short run of shakespeare_char_fast. Prints a Markdown table.

Each time is that of a whole process, start-up and (for tril) the evaluation of the whole validation split included; the
programs take turns. The loss to reach is the classic run's own: its validation loss after 2000 steps.

    scripts/fetch_tinyshakespeare.sh && scripts/bench/time_to_loss.py
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common


def timed(command):
    begin = time.perf_counter()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return time.perf_counter() - begin


def tril_run(binary, config, threads, settings):
    """(seconds, validation loss at the end)"""
    with tempfile.TemporaryDirectory(prefix="tril_bench_") as folder:
        run = Path(folder) / "run"
        command = [binary, "train", "--config", common.PROJECT / "configs" / f"{config}.json", "--run-dir", run, "--quiet",
                   "--threads", threads]
        for setting in ["train.eval_interval=0", "checkpoint.interval=0", *settings]:
            command += ["--set", setting]
        seconds = timed(command)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        return seconds, [line["validation_loss"] for line in lines if "validation_loss" in line][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="of the fast recipe (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=common.available_cores())
    parser.add_argument("--tril", help="the binary (default: build/release/tril)")
    arguments = parser.parse_args()
    binary = common.tril_binary(arguments.tril)
    peer = [common.PEER_PYTHON, Path(__file__).parent / "peer_train.py", "--steps", 2000, "--threads", arguments.threads,
            "--activation", "gelu", "--no-bias", "--log-interval", 100]
    fast = [f"train.steps={arguments.steps}"]
    rows = {"plain PyTorch, classic recipe": [], "tril, classic recipe": [], "tril, fast recipe": []}
    for repeat in range(arguments.repeats):
        if common.PEER_PYTHON.exists():
            rows["plain PyTorch, classic recipe"].append((timed(peer), None))
        rows["tril, classic recipe"].append(tril_run(binary, "shakespeare_char_cpu", arguments.threads, []))
        rows["tril, fast recipe"].append(tril_run(binary, "shakespeare_char_fast", arguments.threads, fast))
        print(f"round {repeat + 1}/{arguments.repeats} done", file=sys.stderr)

    shortest = statistics.median(seconds for seconds, _ in rows["tril, fast recipe"])
    print("| run | steps | wall time, s | times the fast recipe's | validation loss |\n| --- | ---: | ---: | ---: | ---: |")
    for name, results in rows.items():
        if not results:
            continue
        seconds = statistics.median(result[0] for result in results)
        loss = f"{results[-1][1]:.4f}" if results[-1][1] is not None else "not measured"
        steps = arguments.steps if name.endswith("fast recipe") else 2000
        print(f"| {name} | {steps} | {seconds:.1f} | {seconds / shortest:.2f} | {loss} |")


if __name__ == "__main__":
    main()
