#!/usr/bin/env python3
"""Writes tests/golden/huggingface.json: what `transformers` computes for tiny models of every variant that tril claims.

Weights are a formula of each tensor's name (see `values`), so the file holds names, shapes and results only, and the
tests make the same weights. Also recorded: the names and shapes of the state dict that `transformers` itself wants,
logits, and a greedy text of 200 tokens (whose two best logits always differ by more than 0.001).

Needs transformers (pip install transformers) and PyTorch:  python scripts/make_interop_golden.py
"""

import json
from pathlib import Path

import numpy as np
import torch
import transformers

OUT = Path(__file__).resolve().parent.parent / "tests" / "golden" / "huggingface.json"
IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
N_GREEDY = 200

GPT2 = {
    "model_type": "gpt2", "vocab_size": 40, "n_positions": 256, "n_embd": 16, "n_layer": 2, "n_head": 2,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "bos_token_id": None, "eos_token_id": None,
}
LLAMA = {
    "model_type": "llama", "vocab_size": 40, "max_position_embeddings": 256, "hidden_size": 16,
    "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "rms_norm_eps": 1e-5, "bos_token_id": None, "eos_token_id": None,
}
CASES = {
    "gpt2": GPT2,
    "gpt2 with exact gelu, another epsilon and inner width": GPT2 | {
        "activation_function": "gelu", "layer_norm_epsilon": 1e-3, "n_inner": 40},
    "gpt2 with relu, untied": GPT2 | {"activation_function": "relu", "tie_word_embeddings": False},
    "gpt2 with relu squared": GPT2 | {"activation_function": "relu2"},
    "llama": LLAMA,
    "llama with grouped heads": LLAMA | {"num_key_value_heads": 2, "rope_theta": 500.0},
    "llama with one key and value head, tied": LLAMA | {"num_key_value_heads": 1, "tie_word_embeddings": True},
    "llama with biases": LLAMA | {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 2},
    "mistral": LLAMA | {"model_type": "mistral", "sliding_window": None, "num_key_value_heads": 2},
    "qwen2": LLAMA | {"model_type": "qwen2", "num_key_value_heads": 2, "rope_theta": 500.0},
}


def values(name, shape):
    """Number k of a tensor: the upper 24 bits of a 64-bit mix of name and k, as a fraction in [-0.5, 0.5), times 0.8;
    plus 1 for the gains of norms."""
    seed = 0xCBF29CE484222325  # FNV-1a
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) & (2**64 - 1)
    with np.errstate(over="ignore"):
        x = np.arange(int(np.prod(shape)), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    fraction = (x >> np.uint64(40)).astype(np.float64) / 2.0**24 - 0.5
    is_gain = name.endswith("weight") and ("ln_" in name or "norm" in name)
    return (fraction * 0.8 + is_gain).astype(np.float32).reshape(shape)


def run_case(name, settings):
    config = transformers.AutoConfig.for_model(**settings)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
    state = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    tied = bool(config.tie_word_embeddings)
    saved = [key for key in state if not (tied and key == "lm_head.weight")]
    missing, unexpected = model.load_state_dict(
        {key: torch.from_numpy(values(key, state[key])) for key in saved}, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    with torch.no_grad():
        logits = model(torch.tensor([IDS])).logits[0]
        ids, smallest_gap = list(IDS), np.inf
        for _ in range(N_GREEDY):
            row = model(torch.tensor([ids])).logits[0, -1]
            best = torch.topk(row, 2)
            smallest_gap = min(smallest_gap, float(best.values[0] - best.values[1]))
            ids.append(int(best.indices[0]))
    print(f"{name}: smallest gap {smallest_gap:.4f}, {len(set(ids[len(IDS):]))} kinds of tokens")
    assert smallest_gap > 1e-3, "choose other weights: a greedy choice is too close"
    return {
        "name": name, "config": settings, "tensors": [[key, list(state[key])] for key in saved],
        "ids": IDS,
        "logits": {"shape": list(logits.shape), "values": [round(float(v), 6) for v in logits.flatten()]},
        "greedy": ids[len(IDS):],
    }


def main():
    torch.manual_seed(0)
    golden = {"made_by": "scripts/make_interop_golden.py", "transformers": transformers.__version__,
              "cases": [run_case(name, settings) for name, settings in CASES.items()]}
    OUT.write_text(json.dumps(golden) + "\n", encoding="utf-8")
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
