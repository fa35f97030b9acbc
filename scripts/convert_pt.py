#!/usr/bin/env python3
"""Turns a PyTorch checkpoint (.pt, .pth, .bin) into safetensors, once, so that `tril import` can read it.

    convert_pt.py ckpt.pt --out ckpt.safetensors          nanoGPT, train-llm-from-scratch
    convert_pt.py FOLDER/pytorch_model.bin --out FOLDER/model.safetensors   an old Hugging Face folder

Weights only: the file is loaded with torch.load(weights_only=True), which runs no code from it, and optimizer states
are left behind. Names are kept, without the prefixes that wrappers add ("_orig_mod.", "module."). What nanoGPT stores
beside its weights (model_args, with the number of heads) goes into the file's metadata.

Needs PyTorch and safetensors (scripts/setup.sh --peers installs both).
"""

import argparse
import json
import sys
from pathlib import Path

WEIGHTS_KEYS = ("model", "model_state_dict", "state_dict")  # where trainers put them
WRAPPER_PREFIXES = ("_orig_mod.", "module.")


def find_weights(checkpoint):
    """The state dict in a checkpoint: under a known key, or the checkpoint itself."""
    for key in WEIGHTS_KEYS:
        if isinstance(checkpoint.get(key), dict):
            return checkpoint[key]
    return checkpoint


def plain_name(name):
    while name.startswith(WRAPPER_PREFIXES):
        name = name[name.index(".") + 1:]
    return name


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    import torch
    from safetensors.torch import save_file

    checkpoint = torch.load(arguments.checkpoint, map_location="cpu", weights_only=True)
    if not isinstance(checkpoint, dict):
        sys.exit(f"{arguments.checkpoint}: expected a dictionary, found {type(checkpoint).__name__}")
    weights = {plain_name(name): value for name, value in find_weights(checkpoint).items()
               if isinstance(value, torch.Tensor)}
    if not weights:
        sys.exit(f"{arguments.checkpoint}: no tensors found; looked under {', '.join(WEIGHTS_KEYS)} and at the top")
    # Shared tensors (a tied head) are written under each of their names: the importer compares them.
    weights = {name: value.detach().clone().contiguous() for name, value in weights.items()}
    metadata = {"format": "pt"}
    if isinstance(checkpoint.get("model_args"), dict):
        metadata["model_args"] = json.dumps(checkpoint["model_args"])
    save_file(weights, arguments.out, metadata=metadata)
    print(f"{arguments.out}: {len(weights)} tensors, {sum(value.numel() for value in weights.values())} numbers")


if __name__ == "__main__":
    main()
