#!/usr/bin/env python3
"""Generation speed at the shape of GPT-2 124M: tril in fp32, bf16 and int8 against nanoGPT's manner, Hugging Face and
llama-cpp-python, on the same random weights. Prints a Markdown table.

One text, 256 new tokens after 16; then the time to the first token after a prompt of 512. Times exclude loading.
--python: an interpreter with torch and transformers (and llama_cpp for those rows); what it lacks is left out.
--nanogpt: a checkout of nanoGPT, whose own model then runs in place of one written in its manner.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import common

PEER = Path(__file__).parent / "peer_generate.py"
MAKE_MODEL = """
import sys, torch, transformers
torch.manual_seed(1)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(bos_token_id=None, eos_token_id=None))
model.save_pretrained(sys.argv[1])
"""


def run_peer(python, arguments, words):
    command = [python, PEER, *words, "--threads", str(arguments.threads)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        print(f"left out: {' '.join(words)}: {result.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(result.stdout.splitlines()[-1])


def run_tril(binary, run, weights, arguments, prompt_tokens, new_tokens):
    """tril says how long the prompt and the steps took with --timing."""
    command = [binary, "generate", run, "--prompt", "".join(chr(65 + i % 26) for i in range(prompt_tokens)),
               "--max-new-tokens", str(new_tokens), "--temperature", "0", "--weights", weights, "--timing", "--json",
               "--threads", str(arguments.threads), "--device", "cpu"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    timing = json.loads(result.stdout)["timing"]
    rest = timing["step_tokens"]
    return {"first_seconds": timing["prompt_seconds"],
            "tokens_per_second": rest / timing["step_seconds"] if rest else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=str(common.PEER_PYTHON))
    parser.add_argument("--threads", type=int, default=common.available_cores())
    parser.add_argument("--new-tokens", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--skip", nargs="*", default=[], help="rows to leave out, by the first word")
    parser.add_argument("--nanogpt", default="", help="a checkout of nanoGPT")
    parser.add_argument("--tril", help="the binary (default: build/release/tril)")
    parser.add_argument("--keep", help="a folder for the models, used again when it is there")
    arguments = parser.parse_args()
    binary = common.tril_binary(arguments.tril)
    temporary = None if arguments.keep else tempfile.TemporaryDirectory(prefix="tril_generation_")
    folder = Path(arguments.keep or temporary.name)
    folder.mkdir(parents=True, exist_ok=True)
    model, run = folder / "gpt2", folder / "run"
    if not (model / "config.json").exists():
        subprocess.run([arguments.python, "-c", MAKE_MODEL, model], check=True)
    if not (run / "config.json").exists():
        subprocess.run([binary, "import", model, "--out", run, "--tokenizer", "byte", "--quiet"], check=True)
    for dtype in ("f32", "f16", "q8_0"):
        if not (folder / f"{dtype}.gguf").exists():
            subprocess.run([binary, "export", run, "--out", folder / f"{dtype}.gguf", "--format", "gguf", "--dtype",
                            dtype, "--quiet"], check=True)

    def peer(*words):
        return lambda prompt, new: run_peer(
            arguments.python, arguments, [*words, "--prompt-tokens", str(prompt), "--new-tokens", str(new)])

    def tril(weights):
        return lambda prompt, new: run_tril(binary, run, weights, arguments, prompt, new)

    rows = {
        "tril fp32": tril("fp32"), "tril bf16": tril("bf16"), "tril int8": tril("int8"),
        "transformers fp32": peer("transformers", str(model)),
        "transformers bf16": peer("transformers", str(model), "--dtype", "bf16"),
        "llama_cpp f32": peer("llama_cpp", str(folder / "f32.gguf")),
        "llama_cpp f16": peer("llama_cpp", str(folder / "f16.gguf")),
        "llama_cpp q8_0": peer("llama_cpp", str(folder / "q8_0.gguf")),
        "nanogpt fp32, no cache": peer("nanogpt", str(model), "--nanogpt", arguments.nanogpt),
    }
    rows = {name: row for name, row in rows.items() if name.split()[0] not in arguments.skip}
    best = {name: [0.0, float("inf")] for name in rows}
    for _ in range(arguments.repeats):  # in turn: the machine drifts
        for name, row in rows.items():
            speed, first = row(16, arguments.new_tokens), row(512, 1)
            if speed:
                best[name][0] = max(best[name][0], speed["tokens_per_second"])
            if first:
                best[name][1] = min(best[name][1], first["first_seconds"])
    print("| program | tokens/s | first token after 512 |")
    print("| --- | ---: | ---: |")
    for name, (speed, first) in best.items():
        if speed:
            print(f"| {name} | {speed:.1f} | {first:.2f} s |")
    bandwidth = run_peer(arguments.python, arguments, ["matvec"])
    if bandwidth:
        print(f"\ntorch.mv over the matrices of one step: {bandwidth['gigabytes_per_second']:.1f} GB/s")
    print(f"\n{common.machine()}, {arguments.threads} threads; the best of {arguments.repeats}; "
          f"{common.tril_version(binary)}")


if __name__ == "__main__":
    main()
