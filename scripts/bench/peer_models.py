"""The peers' models: each is made from the same sizes and called as model(ids, targets) -> loss."""

import importlib.util
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

ACTIVATIONS = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu": F.gelu,
    "relu": F.relu,
}


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.proj = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, D)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, bias, activation):
        super().__init__()
        self.ln1 = nn.LayerNorm(width, bias=bias)
        self.attention = Attention(width, heads, bias)
        self.ln2 = nn.LayerNorm(width, bias=bias)
        self.up = nn.Linear(width, 4 * width, bias=bias)
        self.down = nn.Linear(4 * width, width, bias=bias)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.down(self.activation(self.up(self.ln2(x))))


class PlainGPT(nn.Module):
    """The usual kind: learned positions, LayerNorm, one fused q/k/v projection, F.scaled_dot_product_attention, GELU,
    tied head, F.cross_entropy over all logits at once."""

    def __init__(self, a):
        super().__init__()
        self.tokens = nn.Embedding(a.vocab, a.n_embed)
        self.positions = nn.Embedding(a.context, a.n_embed)
        self.blocks = nn.ModuleList(Block(a.n_embed, a.heads, a.bias, a.activation) for _ in range(a.blocks))
        self.norm = nn.LayerNorm(a.n_embed, bias=a.bias)
        self.head = nn.Linear(a.n_embed, a.vocab, bias=False)
        self.head.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                residual = name.endswith(("proj.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * a.blocks) ** 0.5 if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))  # (B, T, V)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


class HuggingFaceGPT(nn.Module):
    """GPT2LMHeadModel of the transformers package with its own loss (which shifts the labels itself); no dropout."""

    def __init__(self, a):
        super().__init__()
        try:
            from transformers import GPT2Config, GPT2LMHeadModel
        except ImportError:
            sys.exit(f"transformers is not installed for {sys.executable}: {sys.executable} -m pip install transformers")
        self.model = GPT2LMHeadModel(GPT2Config(
            vocab_size=a.vocab, n_positions=a.context, n_embd=a.n_embed, n_layer=a.blocks, n_head=a.heads,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0))

    def forward(self, ids, targets):
        return self.model(input_ids=ids, labels=ids).loss


class NanoGPT(nn.Module):
    """GPT of the model.py in a checkout of nanoGPT, as its train.py makes it; no dropout."""

    def __init__(self, a):
        super().__init__()
        file = Path(a.checkout) / "model.py"
        if not file.is_file():
            sys.exit(f"{file} does not exist: --checkout is a checkout of nanoGPT")
        spec = importlib.util.spec_from_file_location("nanogpt_model", file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # its dataclass looks itself up here
        spec.loader.exec_module(module)
        self.model = module.GPT(module.GPTConfig(
            block_size=a.context, vocab_size=a.vocab, n_layer=a.blocks, n_head=a.heads, n_embd=a.n_embed,
            dropout=0.0, bias=a.bias))

    def forward(self, ids, targets):
        return self.model(ids, targets)[1]


MODELS = {"plain": PlainGPT, "huggingface": HuggingFaceGPT, "nanogpt": NanoGPT}
