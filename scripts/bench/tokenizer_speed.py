#!/usr/bin/env python3
"""How fast tril encodes and decodes GPT-2 ids, beside the packages of PyPI that do the same.

    tokenizer_speed.py VOCABULARY_FOLDER TEXT… [--tril PROGRAM] [--threads 2] [--peers tiktoken,gigatoken,…]
    tokenizer_speed.py VOCABULARY_FOLDER TEXT… --train 4096     learning a vocabulary instead, beside `tokenizers`

Every measurement is the median of five runs over a text in memory, after one that warms up, in a process of its own.
One thread: the process is bound to one core (taskset) and RAYON_NUM_THREADS is 1. Whether the ids are tiktoken's is
checked for each peer and text. Of a package that is not there, nothing is printed. --train: seconds and the most memory
of one process each that reads the file, learns and writes the vocabulary; they take turns, the best of --runs. Install them beside tiktoken, for
example: pip install tokenizers gigatoken riptoken kitoken iree-tokenizer
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.remove(str(Path(__file__).resolve().parent))  # this file is named as a peer is
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
PEERS = ["tiktoken", "tokenizers", "riptoken", "gigatoken", "kitoken", "iree"]
RUNS = 5


def median_seconds(work):
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def cut(text, n_parts):
    """Documents for the batch calls: lines, put together again to about a hundredth of the text."""
    size = max(1, len(text) // n_parts)
    parts, begin = [], 0
    while begin < len(text):
        end = text.find("\n", min(len(text), begin + size)) + 1 or len(text)
        parts.append(text[begin:end])
        begin = end
    return parts


def open_peer(name, folder, json_file):
    """encode(text) -> ids, batch(texts, threads), decode(ids); None for what a package does not do."""
    from make_gpt2_golden import gpt2

    if name == "tiktoken":
        enc = gpt2(folder)
        return enc.encode_ordinary, lambda ts, n: enc.encode_ordinary_batch(ts, num_threads=n), enc.decode_bytes
    if name == "tokenizers":
        from tokenizers import Tokenizer

        hf = Tokenizer.from_file(json_file)
        return lambda t: hf.encode(t).ids, lambda ts, n: hf.encode_batch_fast(ts), hf.decode
    if name == "riptoken":
        import riptoken
        from tiktoken_ext.openai_public import r50k_pat_str

        rip = riptoken.CoreBPE(gpt2(folder)._mergeable_ranks, {"<|endoftext|>": 50256}, r50k_pat_str)
        return rip.encode_ordinary, lambda ts, n: rip.encode_ordinary_batch(ts), rip.decode_bytes
    if name == "gigatoken":
        import gigatoken

        giga = gigatoken.Tokenizer(json_file)
        return giga.encode, lambda ts, n: giga.encode_batch(ts, parallel=n > 1), giga.decode
    if name == "kitoken":
        from kitoken import Kitoken

        kit = Kitoken.from_file(json_file)
        return lambda t: kit.encode(t, False), lambda ts, n: kit.encode_all(ts, False), kit.decode
    if name == "iree":
        from iree.tokenizer import Tokenizer

        iree = Tokenizer.from_file(json_file)
        return iree.encode_to_array, lambda ts, n: iree.encode_batch(ts), iree.decode
    raise SystemExit(f"no peer of this name: {name}")


def write_huggingface_json(folder):
    """The published files as a tokenizer.json, written by `tokenizers` itself."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    hf = Tokenizer(models.BPE.from_file(str(folder / "encoder.json"), str(folder / "vocab.bpe")))
    hf.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    hf.decoder = decoders.ByteLevel()
    hf.add_special_tokens(["<|endoftext|>"])
    file = Path(tempfile.mkdtemp()) / "tokenizer.json"
    hf.save(str(file))
    return str(file)


def measure_peer(args):
    text = Path(args.worker_text).read_bytes().decode()
    megabytes = len(text.encode()) / 1e6
    encode, batch, decode = open_peer(args.worker, args.vocabulary, args.json_file)
    if args.threads == 1:
        ids = list(map(int, encode(text)))
        from make_gpt2_golden import gpt2

        result = {"encode": megabytes / median_seconds(lambda: encode(text))}
        kept = encode(text)
        result["decode"] = megabytes / median_seconds(lambda: decode(kept))
        result["right"] = ids == gpt2(args.vocabulary).encode_ordinary(text)
    else:
        parts = cut(text, 100)
        batch(parts, args.threads)
        result = {"batch": megabytes / median_seconds(lambda: batch(parts, args.threads))}
    print(json.dumps(result))


TRAIN_PEER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
hf = Tokenizer(models.BPE())
hf.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
hf.train([sys.argv[1]], trainers.BpeTrainer(vocab_size=int(sys.argv[2]), show_progress=False, min_frequency=2,
                                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                            special_tokens=["<|endoftext|>"]))
hf.save(sys.argv[3])
"""


def seconds_and_megabytes(command, threads):
    code = (
        "import resource, subprocess, sys, time\n"
        "begin = time.perf_counter(); subprocess.run(sys.argv[1:], check=True)\n"
        "print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    )
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads))
    out = subprocess.run([sys.executable, "-c", code, *command], env=environment, stdout=subprocess.PIPE, check=True)
    return tuple(map(float, out.stdout.split()))


def compare_training(args):
    out = str(Path(tempfile.mkdtemp()) / "out.json")
    for text in args.texts:
        print(f"\n{text.name}, {text.stat().st_size / 1e6:.1f} MB, vocabulary of {args.train}")
        print(f"{'':<12} {'seconds':>9} {'peak MiB':>9}")
        commands = {
            "tril": [args.tril, "tokenizer", "train", str(text), "--vocab-size", str(args.train), "--out", out,
                     "--threads", str(args.threads), "--quiet"],
            "tokenizers": [sys.executable, "-c", TRAIN_PEER, str(text), str(args.train), out],
        }  # fmt: skip
        best = {}
        for _ in range(args.runs):
            for name, command in commands.items():
                Path(out).unlink(missing_ok=True)
                best[name] = min(best.get(name, (1e9, 0)), seconds_and_megabytes(command, args.threads))
        for name, (seconds, megabytes) in best.items():
            print(f"{name:<12} {seconds:>9.1f} {megabytes:>9.0f}", flush=True)


def run_json(command, threads):
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="true" if threads > 1 else "false")
    if threads == 1:
        command = ["taskset", "-c", "0", *command]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        return {"error": done.stderr.decode().strip().splitlines()[-1:]}
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("texts", nargs="*", type=Path)
    parser.add_argument("--tril", default="build/release/tril")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--json-file", default="", help="GPT-2's tokenizer.json; made by tril when not given")
    parser.add_argument("--train", type=int, default=0, help="learn a vocabulary of this size")
    parser.add_argument("--runs", type=int, default=3, help="with --train: how often")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--worker-text", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return measure_peer(args)
    if args.train:
        return compare_training(args)
    if not args.json_file:
        args.json_file = write_huggingface_json(args.vocabulary)
    for text in args.texts:
        print(f"\n{text.name}, {text.stat().st_size / 1e6:.1f} MB; MB/s")
        print(f"{'':<12} {'encode':>9} {'decode':>9} {'batch':>9}   ids")
        tril = [args.tril, "tokenizer", "bench", "--tokenizer", "gpt2", "--vocab", str(args.vocabulary), "--json", str(text)]
        one = run_json([*tril, "--threads", "1"], 1)
        many = run_json([*tril, "--threads", str(args.threads)], args.threads)
        print(
            f"{'tril':<12} {one['encode_mb_per_second']:>9.1f} {one['decode_mb_per_second']:>9.1f} "
            f"{many['parallel_encode_mb_per_second']:>9.1f}",
            flush=True,
        )
        for peer in args.peers.split(","):
            worker = [
                sys.executable, __file__, str(args.vocabulary), "--worker", peer, "--worker-text", str(text),
                "--json-file", args.json_file, "--threads",
            ]  # fmt: skip
            one = run_json([*worker, "1"], 1)
            many = run_json([*worker, str(args.threads)], args.threads)
            cells = [one.get("encode"), one.get("decode"), many.get("batch")]
            shown = " ".join(f"{cell:>9.1f}" if cell else f"{'-':>9}" for cell in cells)
            right = {True: "right", False: "WRONG"}.get(one.get("right"), one.get("error"))
            print(f"{peer:<12} {shown}   {right} {many.get('error', '')}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
