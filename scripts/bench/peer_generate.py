#!/usr/bin/env python3
"""Greedy generation by other programs, for scripts/bench/generation.py: prints one JSON object.

  nanogpt       nanoGPT's own model and generate() (--nanogpt CHECKOUT; random weights of the same shape), else a plain
                PyTorch GPT-2 in its manner: no cache, the whole text is read for every token
  transformers  Hugging Face GPT2LMHeadModel.generate with its cache
  llama_cpp     llama-cpp-python on a GGUF file
  matvec        no generation: the bandwidth of torch.mv over the matrices of one step

All but the last read FOLDER (a Hugging Face GPT-2) or FILE.gguf. Times exclude loading and one warm-up.
"""

import argparse
import json
import sys
import time
from pathlib import Path


def prompt_ids(n):
    return [65 + i % 26 for i in range(n)]


def nanogpt_checkout(arguments):
    import torch

    sys.path.insert(0, arguments.nanogpt)
    from model import GPT, GPTConfig

    model = GPT(GPTConfig(vocab_size=50257, block_size=1024, bias=True, dropout=0.0)).eval()

    def generate(n_prompt, n_new):
        ids = torch.tensor([prompt_ids(n_prompt)])
        begin = time.perf_counter()
        model.generate(ids, n_new, top_k=1)
        return time.perf_counter() - begin

    with torch.inference_mode():
        generate(4, 2)
        return generate(arguments.prompt_tokens, 1), generate(arguments.prompt_tokens, arguments.new_tokens)


def nanogpt(arguments):
    if arguments.nanogpt:
        return nanogpt_checkout(arguments)
    import torch
    from torch.nn import functional as F
    from transformers import GPT2LMHeadModel

    source = GPT2LMHeadModel.from_pretrained(arguments.model).eval()
    config, weights = source.config, {k: v.float() for k, v in source.state_dict().items()}

    def linear(x, name):  # Hugging Face stores (in, out)
        return F.linear(x, matrices[name], weights[name + ".bias"])

    matrices = {k.removesuffix(".weight"): v.t().contiguous() for k, v in weights.items()
                if k.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))}

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], weights[name + ".weight"], weights[name + ".bias"])

    def forward(ids):
        t, c = ids.shape[1], config.n_embd
        x = weights["transformer.wte.weight"][ids] + weights["transformer.wpe.weight"][:t]
        for i in range(config.n_layer):
            block = f"transformer.h.{i}."
            q, k, v = linear(norm(x, block + "ln_1"), block + "attn.c_attn").split(c, dim=2)
            q, k, v = (y.view(1, t, config.n_head, -1).transpose(1, 2) for y in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + linear(y.transpose(1, 2).reshape(1, t, c), block + "attn.c_proj")
            h = F.gelu(linear(norm(x, block + "ln_2"), block + "mlp.c_fc"), approximate="tanh")
            x = x + linear(h, block + "mlp.c_proj")
        return F.linear(norm(x, "transformer.ln_f")[:, [-1]], weights["transformer.wte.weight"])

    def generate(n_prompt, n_new):
        ids = torch.tensor([prompt_ids(n_prompt)])
        begin = time.perf_counter()
        first = None
        for _ in range(n_new):
            ids = torch.cat([ids, forward(ids[:, -config.n_positions:])[:, -1].argmax(-1, keepdim=True)], dim=1)
            first = first or time.perf_counter() - begin
        return first, time.perf_counter() - begin

    with torch.inference_mode():
        generate(4, 2)
        return generate(arguments.prompt_tokens, arguments.new_tokens)


def transformers(arguments):
    import torch
    from transformers import AutoModelForCausalLM

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[arguments.dtype]
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=dtype).eval()

    def generate(n_prompt, n_new):
        ids = torch.tensor([prompt_ids(n_prompt)])
        begin = time.perf_counter()
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=n_new, min_new_tokens=n_new,
                       do_sample=False, pad_token_id=0)
        return time.perf_counter() - begin

    with torch.inference_mode():
        generate(4, 2)
        first = generate(arguments.prompt_tokens, 1)
        return first, generate(arguments.prompt_tokens, arguments.new_tokens)


def llama_cpp(arguments):
    import llama_cpp

    model = llama_cpp.Llama(
        arguments.model, n_ctx=arguments.prompt_tokens + arguments.new_tokens + 8, n_threads=arguments.threads,
        n_threads_batch=arguments.threads, verbose=False)

    def generate(n_prompt, n_new):
        model.reset()
        begin = time.perf_counter()
        model.eval(prompt_ids(n_prompt))
        first = None
        for i in range(n_new):
            token = model.sample(temp=0.0)
            first = first or time.perf_counter() - begin
            if i + 1 < n_new:
                model.eval([token])
        return first, time.perf_counter() - begin

    generate(4, 2)
    return generate(arguments.prompt_tokens, arguments.new_tokens)


def matvec(arguments):
    import torch

    c = 768
    shapes = [(3 * c, c), (c, c), (4 * c, c), (c, 4 * c)] * 12 + [(50257, c)]
    matrices = [torch.randn(shape) for shape in shapes]
    vectors = [torch.randn(shape[1]) for shape in shapes]
    n_bytes = 4 * sum(matrix.numel() for matrix in matrices)
    best = float("inf")
    for _ in range(10):
        begin = time.perf_counter()
        for matrix, vector in zip(matrices, vectors):
            torch.mv(matrix, vector)
        best = min(best, time.perf_counter() - begin)
    return best, n_bytes / best / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", choices=["nanogpt", "transformers", "llama_cpp", "matvec"])
    parser.add_argument("model", nargs="?", default="")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--prompt-tokens", type=int, default=16)
    parser.add_argument("--new-tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--nanogpt", default="", help="a checkout of nanoGPT")
    arguments = parser.parse_args()
    if arguments.program != "llama_cpp":
        import torch
        torch.set_num_threads(arguments.threads)
    first, total = globals()[arguments.program](arguments)
    if arguments.program == "matvec":
        print(json.dumps({"gigabytes_per_second": total}))
        return
    rest = arguments.new_tokens - 1
    print(json.dumps({"first_seconds": first, "tokens_per_second": rest / (total - first) if rest else None,
                      "program": Path(arguments.model).name}))


if __name__ == "__main__":
    main()
