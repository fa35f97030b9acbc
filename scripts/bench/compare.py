#!/usr/bin/env python3
"""Training speed and memory of tril and its peers on this machine's CPU, in turn: prints a Markdown table.

All train the same shape on as many tokens per step. They are started once; then one runs while the others are stopped
(SIGSTOP), a few seconds each, round after round: a slow minute of the machine meets all of them. Start-up and
compilation are not counted. Figures are medians over the rounds; a ratio is taken within a round.

    scripts/bench/compare.py --shape small
    scripts/bench/compare.py --shape gpt2_124m --programs tril,tril:bf16,pytorch,nanogpt,llmc \\
        --nanogpt ../nanoGPT --llmc ../llm.c --python VENV/bin/python

Programs: tril, pytorch (a plain GPT), huggingface (needs transformers), nanogpt (needs --nanogpt), llmc (needs --llmc;
gpt2_124m only). After a colon: bf16, auto (tril), compile (torch.compile), in any combination, as pytorch:compile:bf16.
"""

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from pathlib import Path

import common
import programs


def make_program(text, folder, shape_name, a):
    name, *options = text.split(":")
    known = {"tril": {"bf16", "auto"}, "pytorch": {"bf16", "compile"}, "huggingface": {"bf16", "compile"},
             "nanogpt": {"bf16", "compile"}, "llmc": set()}
    if name not in known or not set(options) <= known[name]:
        sys.exit(f"unknown program '{text}'; known: "
                 + ", ".join(key + "".join(f"[:{option}]" for option in sorted(value)) for key, value in known.items()))
    shape = common.SHAPES[shape_name]
    precision = "bf16" if "bf16" in options else "auto" if "auto" in options else "fp32"
    if name == "tril":
        return programs.Tril(text, folder, common.tril_binary(a.tril), shape, a.threads, precision, a.set)
    if name == "llmc":
        if shape_name != "gpt2_124m":
            sys.exit("llmc: its CPU program trains one shape, gpt2_124m")
        if not a.llmc:
            sys.exit("llmc: give a checkout with --llmc DIR")
        return programs.LlmC(text, folder, a.llmc, a.threads)
    if not Path(a.python).exists():
        sys.exit(f"{a.python} does not exist; make it with: scripts/setup.sh --peers")
    if name == "nanogpt" and not a.nanogpt:
        sys.exit("nanogpt: give a checkout with --nanogpt DIR")
    checkout = Path(a.nanogpt).resolve() if name == "nanogpt" else None
    return programs.TorchPeer(text, folder, Path(a.python).absolute(), shape, a.threads,
                              "plain" if name == "pytorch" else name, precision, "compile" in options, checkout)


def run(all_programs, a):
    """Tokens/s of each program in each round: {name: [..]}."""
    speeds = {program.name: [] for program in all_programs}
    for program in all_programs:
        program.start()
        program.wait_for_groups(3, timeout_seconds=900)  # compiled, warm
        program.pause()
        print(f"{program.name} is ready", file=sys.stderr)
    for number in range(a.repeats):
        for program in all_programs:
            speeds[program.name].append(program.turn(a.seconds))
        print(f"round {number + 1}/{a.repeats}: "
              + ", ".join(f"{name} {values[-1]:,.0f}" for name, values in speeds.items()), file=sys.stderr)
    for program in all_programs:
        program.read_peak()
    return speeds


def table(all_programs, speeds, shape, reference):
    tokens = shape["batch"] * shape["context"]
    rows = [f"| program | tokens/s | range | ms/step | {reference} / it | range | peak memory |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for program in all_programs:
        values = speeds[program.name]
        ratios = [mine / its for mine, its in zip(speeds[reference], values)]
        median = statistics.median(values)
        rows.append(
            f"| {program.name} | {median:,.0f} | {min(values):,.0f} to {max(values):,.0f} "
            f"| {1000 * tokens / median:,.1f} | {statistics.median(ratios):.2f} "
            f"| {min(ratios):.2f} to {max(ratios):.2f} | {program.peak_bytes / 1e6:,.0f} MB |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=common.SHAPES, default="small")
    parser.add_argument("--programs", default="tril,pytorch,pytorch:compile", help="default: %(default)s")
    parser.add_argument("--reference", help="the program of the ratios (default: the first)")
    parser.add_argument("--repeats", type=int, default=7, help="rounds (default: 7)")
    parser.add_argument("--seconds", type=float, default=2.0, help="a program's turn, at least two groups (default: 2)")
    parser.add_argument("--threads", type=int, default=common.available_cores(), help="default: all cores")
    parser.add_argument("--tril", help="the binary (default: build/release/tril)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="passed on to tril train")
    parser.add_argument("--python", default=common.PEER_PYTHON, help="an interpreter with torch (default: .deps/peers)")
    parser.add_argument("--nanogpt", metavar="DIR", help="a checkout of nanoGPT")
    parser.add_argument("--llmc", metavar="DIR", help="a checkout of llm.c")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    a = parser.parse_args()
    shape = common.SHAPES[a.shape]
    names = a.programs.split(",")
    reference = a.reference or names[0]
    if reference not in names or len(set(names)) != len(names):
        parser.error("--programs: each once, and --reference is one of them")

    with tempfile.TemporaryDirectory(prefix="tril_compare_") as folder:
        all_programs = [make_program(name, Path(folder) / str(i), a.shape, a) for i, name in enumerate(names)]
        try:
            speeds = run(all_programs, a)
        finally:
            for program in all_programs:
                program.stop()
    if a.json:
        print(json.dumps({"shape": a.shape, "sizes": shape, "tokens_per_second": speeds,
                          "peak_bytes": {p.name: p.peak_bytes for p in all_programs}}))
        return
    print(f"{a.shape}: C {shape['n_embed']}, T {shape['context']}, B {shape['batch']}, L {shape['blocks']}, "
          f"H {shape['heads']}, V {shape['vocab']}\n")
    print(table(all_programs, speeds, shape, reference))
    print(f"\n{common.machine()}, {a.threads} threads; {common.tril_version(common.tril_binary(a.tril))}. "
          f"Medians of {a.repeats} rounds of {a.seconds:g} s each, in turn; ratios within a round.")
    print(f"\nCommand: `{shlex.join(['scripts/bench/compare.py'] + sys.argv[1:])}`")


if __name__ == "__main__":
    main()
