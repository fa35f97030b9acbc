#!/usr/bin/env python3
"""Writes tests/golden/foreign/: token files as other programs make them, for tests/data/foreign_tokens_test.cpp.

numpy and h5py write them, in the layouts of llm.c (dev/data/data_common.py), nanoGPT (data/*/prepare.py) and
train-llm-from-scratch (an int32 dataset `tokens`, chunked and growing, or written whole). The ids are those of the bytes
of one text, so the byte tokenizer gives them their meaning; nanogpt_char.bin has its characters' ids and meta.pkl.

Usage: make_foreign_tokens.py    (needs numpy and h5py)
"""

import pickle
from pathlib import Path

import h5py
import numpy as np

TEXT = "".join(f"line {i}: the owl and the mole went to the old mill\n" for i in range(40))


def write_llmc(path, ids, magic, version, dtype):
    header = np.zeros(256, dtype=np.int32)
    header[0], header[1], header[2] = magic, version, len(ids)
    with open(path, "wb") as file:
        file.write(header.tobytes())
        file.write(ids.astype(dtype).tobytes())


def write_growing(path, ids):
    """As one appends document by document."""
    with h5py.File(path, "w") as file:
        tokens = file.create_dataset("tokens", (0,), maxshape=(None,), dtype="i", chunks=(256,), compression="gzip")
        for begin in range(0, len(ids), 100):
            part = ids[begin : begin + 100]
            tokens.resize(tokens.shape[0] + len(part), axis=0)
            tokens[-len(part) :] = part


def write_char_level(folder):
    """As nanoGPT's data/shakespeare_char/prepare.py does it."""
    chars = sorted(set(TEXT + "\u65e5\u00e9"))
    stoi = {char: i for i, char in enumerate(chars)}
    itos = dict(enumerate(chars))
    np.array([stoi[char] for char in TEXT], dtype=np.uint16).tofile(folder / "nanogpt_char.bin")
    for protocol in (2, 4):
        with open(folder / f"meta_protocol{protocol}.pkl", "wb") as file:
            pickle.dump({"vocab_size": len(chars), "itos": itos, "stoi": stoi}, file, protocol=protocol)


def main():
    folder = Path(__file__).parent.parent / "tests" / "golden" / "foreign"
    folder.mkdir(parents=True, exist_ok=True)
    ids = np.frombuffer(TEXT.encode(), dtype=np.uint8)
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    ids.astype(np.uint16).tofile(folder / "nanogpt.bin")
    write_char_level(folder)
    write_llmc(folder / "llmc_gpt2.bin", ids, 20240520, 1, np.uint16)
    write_llmc(folder / "llmc_llama3.bin", ids, 20240801, 7, np.uint32)
    write_growing(folder / "growing.h5", ids)
    with h5py.File(folder / "packed.h5", "w") as file:
        file.create_dataset("tokens", data=ids[:128].reshape(8, 16).astype(np.int32))
    with h5py.File(folder / "floats.h5", "w") as file:
        file.create_dataset("tokens", data=ids[:16].astype(np.float32))
    with h5py.File(folder / "other.h5", "w") as file:
        file.create_dataset("ids", data=ids[:16].astype(np.int64))


if __name__ == "__main__":
    main()
