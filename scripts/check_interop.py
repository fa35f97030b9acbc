#!/usr/bin/env python3
"""Checks tril's imports and exports against the programs themselves: transformers and llama-cpp-python.

Trains small models with tril, exports them, and compares: keys (none missing, none unexpected), logits, greedy texts of
200 tokens, losses on the same tokens, tokenizers. Then a model that transformers made is imported, fine-tuned on a text,
resumed, exported, and given back. The default tests check the same against recorded values; this script is for new
versions of those programs.

    check_interop.py --python INTERPRETER    with torch, transformers and, for GGUF, llama_cpp
    check_interop.py --text FILE --vocab DIR the text to fine-tune on, and GPT-2's encoder.json and vocab.bpe
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
TEXT_SETTINGS = ["data.tales_bytes=400000", "train.steps=150", "train.batch_size=8", "train.eval_interval=0",
                 "checkpoint.interval=0", "model.context_length=256", "model.n_embed=64", "model.n_head=4",
                 "model.n_blocks=2", "train.precision=fp32"]
MODELS = {
    "gpt2": (["model.preset=gpt2"], True),
    "gpt2 exact gelu, no biases, bytes": (
        ["model.preset=gpt2", "model.activation=gelu", "model.bias=false", "model.qkv_bias=false",
         "data.tokenizer=byte"], False),
    "gpt2 relu, untied": (["model.preset=gpt2", "model.activation=relu", "model.tie_embeddings=false"], False),
    "llama": (["model.activation=swiglu", "model.qk_norm=false"], True),
    "llama grouped, biases, untied, bytes": (
        ["model.activation=swiglu", "model.qk_norm=false", "model.n_kv_head=2", "model.bias=true", "model.qkv_bias=true",
         "model.tie_embeddings=false", "data.tokenizer=byte"], True),
    "qwen2": (["model.activation=swiglu", "model.qk_norm=false", "model.qkv_bias=true", "model.n_kv_head=1"], False),
}
PROMPT = "In the old orchard"
FINE_TUNING = {"optimizer": {"learning_rate": 2e-3},
               "schedule": {"warmup_steps": 10, "decay_steps": 120},
               "train": {"steps": 120, "batch_size": 8, "eval_interval": 0, "precision": "fp32"},
               "checkpoint": {"interval": 60, "keep_last": 0}}


def tril(binary, *words):
    return subprocess.run([binary, *map(str, words)], check=True, capture_output=True, text=True).stdout


def check_transformers(folder, expected_ids, loss):
    """Runs inside --python: names, greedy text, loss and tokenizer of an exported folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
    missing = [key for key in info["missing_keys"] if key != "lm_head.weight"]
    assert not missing and not info["unexpected_keys"] and not info["mismatched_keys"], info
    # transformers 5 gives every qwen2 folder Qwen's own splitting, whatever its tokenizer.json says.
    opener = PreTrainedTokenizerFast if model.config.model_type == "qwen2" else AutoTokenizer
    tokenizer = opener.from_pretrained(folder)
    ids = tokenizer(PROMPT, return_tensors="pt").input_ids
    assert tokenizer.decode(ids[0]) == PROMPT, tokenizer.decode(ids[0])
    with torch.no_grad():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=len(expected_ids),
                             do_sample=False, pad_token_id=0, eos_token_id=None)
        found = out[0, ids.shape[1]:].tolist()
        assert found == expected_ids, first_difference(found, expected_ids)
        text = tokenizer(Path(loss["text"]).read_text(encoding="utf-8"), return_tensors="pt").input_ids
        logits = model(text[:, :-1]).logits
        own = float(torch.nn.functional.cross_entropy(logits[0], text[0, 1:]))
    assert abs(own - loss["loss"]) < 1e-4, (own, loss["loss"])
    print(f"  transformers: no missing or unexpected key; {len(found)} greedy tokens equal; loss {own:.6f}, tril's "
          f"{loss['loss']:.6f}")


def make_gpt2(folder, vocabulary):
    """Runs inside --python: a fresh GPT-2 of transformers with the published vocabulary."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(7)
    GPT2LMHeadModel(GPT2Config(n_embd=96, n_layer=3, n_head=4, n_positions=256)).save_pretrained(folder)
    shutil.copy(Path(vocabulary) / "encoder.json", Path(folder) / "vocab.json")
    shutil.copy(Path(vocabulary) / "vocab.bpe", Path(folder) / "merges.txt")


def check_fine_tuning(binary, folder, text, vocabulary, inside):
    """Import, fine-tune, resume bit for bit, export: transformers has the same loss on the same tokens."""
    print("fine-tuning a model of transformers")
    source, imported, config, part = (folder / name for name in ("source", "imported", "tune.json", "part.txt"))
    inside(program="make_gpt2", path=str(source), vocabulary=str(vocabulary))
    tril(binary, "import", source, "--out", imported, "--quiet")
    config.write_text(json.dumps({**FINE_TUNING, "init_from": str(imported), "data": {"train": str(text)}}))
    part.write_text(text.read_text(encoding="utf-8")[-600:], encoding="utf-8")  # fewer tokens than the context

    def loss_of(run):
        return json.loads(tril(binary, "evaluate", run, "--data", part, "--json", "--device", "cpu"))["loss"]

    straight, stopped = folder / "straight", folder / "stopped"
    tril(binary, "train", "--config", config, "--run-dir", straight, "--quiet")
    tril(binary, "train", "--config", config, "--run-dir", stopped, "--quiet", "--set", "train.steps=60")
    tril(binary, "train", "--run-dir", stopped, "--resume", "--quiet", "--set", "train.steps=120")
    for name in ("model.safetensors", "optimizer.safetensors"):
        a, b = (run / "checkpoints" / "step_00000120" / name for run in (straight, stopped))
        assert a.read_bytes() == b.read_bytes(), f"{name} differs after a resume"
    before, after = loss_of(imported), loss_of(straight)
    assert after < before - 1, (before, after)
    print(f"  loss {before:.3f} -> {after:.3f} in 120 steps; stopped at 60 and resumed: equal bit for bit")
    sample = json.loads(tril(binary, "generate", straight, "--prompt", PROMPT, "--temperature", 0, "--max-new-tokens", 100,
                             "--json", "--device", "cpu"))
    tril(binary, "export", straight, "--out", folder / "tuned", "--quiet")
    inside(program="transformers", path=str(folder / "tuned"), ids=sample["samples"][0]["ids"],
           loss={"loss": after, "text": str(part)})


def first_difference(a, b):
    at = next(i for i, (x, y) in enumerate(zip(a, b)) if x != y)
    return f"first difference at token {at}: {a[at]} and {b[at]}"


def check_llama(file, expected_ids):
    """Runs inside --python: greedy text of a GGUF file with an f32 cache, up to a choice that is too close."""
    import ctypes
    import llama_cpp
    import numpy as np

    model = llama_cpp.Llama(file, n_ctx=256, verbose=False, type_k=0, type_v=0, n_threads=1, logits_all=False)
    ids = model.tokenize(PROMPT.encode(), add_bos=False, special=False)
    assert model.detokenize(ids).decode() == PROMPT
    model.eval(ids)
    n_vocab = model.n_vocab()
    for count, expected in enumerate(expected_ids):
        row = np.ctypeslib.as_array(
            ctypes.cast(llama_cpp.llama_get_logits_ith(model.ctx, -1), ctypes.POINTER(ctypes.c_float)), (n_vocab,))
        second, best = np.argsort(row, kind="stable")[-2:]
        if row[best] - row[second] < 0.02:
            print(f"  llama-cpp-python: {count} greedy tokens equal, then two logits closer than 0.02")
            return
        assert best == expected, f"token {count}: {best}, tril has {expected}"
        model.eval([expected])
    print(f"  llama-cpp-python: {len(expected_ids)} greedy tokens equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=str(PROJECT / ".deps" / "peers" / "bin" / "python"))
    parser.add_argument("--tril", default=str(PROJECT / "build" / "release" / "tril"))
    parser.add_argument("--text", type=Path, default=PROJECT / "data" / "tinyshakespeare.txt")
    parser.add_argument("--vocab", type=Path, default=PROJECT / "data" / "gpt2")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        job = json.loads(arguments.inside)
        if job["program"] == "transformers":
            check_transformers(job["path"], job["ids"], job["loss"])
        elif job["program"] == "make_gpt2":
            make_gpt2(job["path"], job["vocabulary"])
        else:
            check_llama(job["path"], job["ids"])
        return

    def inside(**job):
        result = subprocess.run([arguments.python, __file__, "--inside", json.dumps(job)], text=True,
                                capture_output=True)
        print(result.stdout, end="")
        if result.returncode != 0:
            sys.exit(f"{job['program']} on {job['path']}:\n{result.stderr[-2000:]}")

    has_llama = subprocess.run([arguments.python, "-c", "import llama_cpp"], capture_output=True).returncode == 0
    with tempfile.TemporaryDirectory(prefix="tril_interop_") as folder:
        folder = Path(folder)
        (folder / "config.json").write_text("{}", encoding="utf-8")
        text = folder / "text.txt"
        tril(arguments.tril, "corpus", "tales", "--bytes", 1000, "--seed", 3, "--out", text)
        text.write_text(text.read_text(encoding="utf-8")[:200], encoding="utf-8")
        for name, (settings, to_gguf) in MODELS.items():
            print(name)
            run, out = folder / "runs" / name.replace(" ", "_").replace(",", ""), folder / "out" / name.split(",")[0]
            sets = [word for setting in TEXT_SETTINGS + settings for word in ("--set", setting)]
            tril(arguments.tril, "train", "--config", folder / "config.json", "--run-dir", run, "--quiet", *sets)
            sample = json.loads(tril(arguments.tril, "generate", run, "--prompt", PROMPT, "--temperature", 0,
                                     "--max-new-tokens", 200, "--json", "--device", "cpu"))
            ids = sample["samples"][0]["ids"]
            loss = json.loads(tril(arguments.tril, "evaluate", run, "--data", text, "--json", "--device", "cpu"))
            out.parent.mkdir(exist_ok=True)
            tril(arguments.tril, "export", run, "--out", out, "--quiet")
            inside(program="transformers", path=str(out), ids=ids, loss={"loss": loss["loss"], "text": str(text)})
            if to_gguf and has_llama:
                file = out.with_suffix(".gguf")
                tril(arguments.tril, "export", run, "--out", file, "--format", "gguf", "--quiet")
                inside(program="llama_cpp", path=str(file), ids=ids)
        tuned = arguments.text.exists() and (arguments.vocab / "vocab.bpe").exists()
        if tuned:
            check_fine_tuning(arguments.tril, folder, arguments.text, arguments.vocab, inside)
        else:
            print(f"fine-tuning: left out, {arguments.text} or {arguments.vocab} is not there (scripts/fetch_*.sh)")
    print("all equal" if has_llama else "all equal (llama-cpp-python is not installed: GGUF was not run)")


if __name__ == "__main__":
    main()
