#!/usr/bin/env python3
"""Speed and peak memory of `tril prepare` on texts of two sizes, made by repeating 1 MB of tales. Prints a Markdown table.

The inputs are a plain text, JSON lines (one tale each), and the latter compressed with gzip; one thread and all cores.
MB/s are megabytes of text. Peak memory is the highest resident set of the process (getrusage), and includes the program.
"""

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common


def run(command):
    """Seconds and peak MiB of a command, in a process whose only child it is."""
    code = (
        "import resource,subprocess,sys,time\n"
        "begin=time.perf_counter();r=subprocess.run(sys.argv[1:]).returncode\n"
        "print(time.perf_counter()-begin,resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss/1024);sys.exit(r)"
    )
    result = subprocess.run([sys.executable, "-c", code, *map(str, command)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{result.stderr}")
    seconds, peak = result.stdout.split()
    return float(seconds), float(peak)


def write_inputs(folder, binary, megabytes):
    """The three inputs, each of about `megabytes` MB of text; file -> bytes of text."""
    piece = folder / "piece.txt"
    if not piece.exists():
        subprocess.run([binary, "corpus", "tales", "--bytes", "1000000", "--seed", "1", "--out", piece], check=True,
                       stderr=subprocess.DEVNULL)
    text = piece.read_bytes()
    tales = [tale + "\n" for tale in text.decode().split("\n\n") if tale]
    lines = "".join(json.dumps({"text": tale}) + "\n" for tale in tales).encode()
    inputs = {folder / f"{megabytes}.txt": text, folder / f"{megabytes}.jsonl": lines}
    for path, bytes_once in inputs.items():
        with open(path, "wb") as file:
            for _ in range(megabytes):
                file.write(bytes_once)
    packed = folder / f"{megabytes}.jsonl.gz"
    member = gzip.compress(lines, 6)
    with open(packed, "wb") as file:
        for _ in range(megabytes):
            file.write(member)
    document_bytes = sum(len(tale.encode()) for tale in tales) * megabytes
    return {
        folder / f"{megabytes}.txt": len(text) * megabytes,
        folder / f"{megabytes}.jsonl": document_bytes,
        packed: document_bytes,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tril", help="the program (default: build/release/tril)")
    parser.add_argument("--tokenizer", nargs="+", default=["char", "byte"])
    parser.add_argument("--megabytes", nargs=2, type=int, default=[100, 1000], metavar=("SMALL", "LARGE"))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, os.cpu_count()])
    args = parser.parse_args()
    binary = common.tril_binary(args.tril)
    print("| tokenizer | input | threads | MB | MB/s | peak MiB | peak, large / small |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peaks = {}
        for megabytes in args.megabytes:
            for path, text_bytes in write_inputs(folder, binary, megabytes).items():
                kind = path.name.split(".", 1)[1]
                for tokenizer in args.tokenizer:
                    for threads in args.threads:
                        out = folder / "out"
                        command = [binary, "prepare", path, "--tokenizer", tokenizer, "--out", out, "--threads", threads,
                                   "--quiet"]
                        seconds, peak = run(command)
                        shutil.rmtree(out)
                        key = (kind, tokenizer, threads)
                        ratio = f"{peak / peaks[key]:.2f}" if key in peaks else ""
                        peaks.setdefault(key, peak)
                        print(f"| {tokenizer} | {kind} | {threads} | {text_bytes / 1e6:.0f} | "
                              f"{text_bytes / 1e6 / seconds:.0f} | {peak:.1f} | {ratio} |", flush=True)
                path.unlink()


if __name__ == "__main__":
    main()
