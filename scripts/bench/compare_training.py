#!/usr/bin/env python3
"""Training speed of tril and of a plain PyTorch GPT (peer_train.py) on this machine's CPU: prints a Markdown table.

Both train the same model on the same number of tokens per step; they take turns (A B A B ...), so that a slow minute
of the machine meets both. Each run's figure is its median after warm-up; the table gives medians over the runs and the
range of the ratios of neighbouring runs.

    scripts/bench/compare_training.py --shapes small,medium --repeats 5 --seconds 20
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import common


def run_tril(binary, shape, arguments):
    with tempfile.TemporaryDirectory(prefix="tril_bench_") as folder:
        config = common.tril_config(
            shape, arguments.threads, arguments.precision, arguments.activation, arguments.bias,
            data=arguments.data)
        file, run = common.write_config(folder, config), Path(folder) / "run"
        command = [binary, "train", "--config", file, "--run-dir", run, "--quiet",
                   "--set", f"train.max_minutes={arguments.seconds / 60}"]
        for setting in arguments.set:
            command += ["--set", setting]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{shlex.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
        lines = common.metrics_lines(run)
        return common.median_after_warm_up([line["tokens_per_second"] for line in lines])


def run_peer(shape, arguments):
    command = [common.PEER_PYTHON, Path(__file__).parent / "peer_train.py", "--steps", 1_000_000,
               "--seconds", arguments.seconds, "--threads", arguments.threads, "--precision", arguments.precision,
               "--activation", arguments.activation, "--bias" if arguments.bias else "--no-bias"]
    for key, value in shape.items():
        command += ["--" + key.replace("_", "-"), value]
    if arguments.compile:
        command.append("--compile")
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default=",".join(common.SHAPES), help="of: %(default)s")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each program per shape (default: 3)")
    parser.add_argument("--seconds", type=float, default=20.0, help="training time of each run (default: 20)")
    parser.add_argument("--threads", type=int, default=common.available_cores(), help="default: all cores")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--activation", choices=["gelu_tanh", "gelu", "relu"], default="gelu_tanh")
    parser.add_argument("--bias", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--compile", action="store_true", help="the peer under torch.compile")
    parser.add_argument("--data", default="tales", help="tril's data.train: the bundled corpus, a text or a token file")
    parser.add_argument("--tril", help="the binary (default: build/release/tril)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="passed on to tril train")
    arguments = parser.parse_args()
    shapes = arguments.shapes.split(",")
    if unknown := [name for name in shapes if name not in common.SHAPES]:
        parser.error(f"unknown shape {unknown[0]}; known: {', '.join(common.SHAPES)}")
    if arguments.data != "tales":
        arguments.data = str(Path(arguments.data).resolve())
    binary = common.tril_binary(arguments.tril)
    if not common.PEER_PYTHON.exists():
        sys.exit(f"{common.PEER_PYTHON} does not exist; make it with: scripts/setup.sh --peers")

    rows, peer = [], {}
    for name in shapes:
        shape = common.SHAPES[name]
        tril_figures, peer_figures = [], []
        for repeat in range(arguments.repeats):
            tril_figures.append(run_tril(binary, shape, arguments))
            peer = run_peer(shape, arguments)
            peer_figures.append(peer["tokens_per_second"])
            print(f"{name} {repeat + 1}/{arguments.repeats}: tril {tril_figures[-1]:.0f}, "
                  f"PyTorch {peer_figures[-1]:.0f} tokens/s", file=sys.stderr)
        ratios = [a / b for a, b in zip(tril_figures, peer_figures)]
        tril_median, peer_median = statistics.median(tril_figures), statistics.median(peer_figures)
        rows.append(
            f"| {name} | C {shape['n_embed']}, T {shape['context']}, B {shape['batch']}, L {shape['blocks']}, "
            f"H {shape['heads']}, V {shape['vocab']} | {peer['parameters'] / 1e6:.1f} M | {tril_median:,.0f} "
            f"| {peer_median:,.0f} | {tril_median / peer_median:.2f} | {min(ratios):.2f} to {max(ratios):.2f} |")

    print("| shape | | parameters | tril, tokens/s | PyTorch, tokens/s | ratio | range |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    print("\n".join(rows))
    print(f"\n{common.machine()}, {peer['threads']} threads, {arguments.precision}; {common.tril_version(binary)}; "
          f"peer: PyTorch {peer['torch']}{' with torch.compile' if arguments.compile else ''}. Medians of "
          f"{arguments.repeats} runs each of {arguments.seconds:g} s, taking turns.")
    print(f"\nCommand: `{shlex.join(['scripts/bench/compare_training.py'] + sys.argv[1:])}`")


if __name__ == "__main__":
    main()
