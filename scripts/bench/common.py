"""What the benchmark scripts share: model shapes, tril configs, running tril, and the machine in words."""

import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
PEER_PYTHON = PROJECT / ".deps" / "peers" / "bin" / "python"

# The named shapes of `tril bench`. vocab_size may be larger than the data's vocabulary; log_interval: a group of steps takes some tenths of a second.
SHAPES = {
    "small": {"n_embed": 128, "context": 64, "batch": 12, "blocks": 4, "heads": 4, "vocab": 65, "log_interval": 20},
    "medium": {"n_embed": 384, "context": 256, "batch": 16, "blocks": 6, "heads": 6, "vocab": 65, "log_interval": 1},
    "gpt2_124m": {
        "n_embed": 768, "context": 64, "batch": 4, "blocks": 12, "heads": 12, "vocab": 50304, "log_interval": 1,
    },
    "wide_vocabulary": {
        "n_embed": 256, "context": 256, "batch": 8, "blocks": 4, "heads": 4, "vocab": 50304, "log_interval": 1,
    },
}


def tril_binary(path):
    binary = Path(path or PROJECT / "build" / "release" / "tril")
    if not binary.exists():
        sys.exit(f"{binary} does not exist; build it with: cmake --preset release && cmake --build --preset release")
    return binary.resolve()


def tril_config(shape, threads, precision="fp32", activation="gelu_tanh", bias=True, data="tales", steps=1_000_000):
    """The config whose work equals the peer's: same model, optimizer, batch and clipping; nothing but training."""
    return {
        "device": "cpu",
        "threads": threads,
        "data": {"train": data, "tokenizer": "char", "validation_fraction": 0},
        "model": {
            "preset": "gpt2", "activation": activation, "bias": bias, "qkv_bias": bias,
            "context_length": shape["context"], "n_embed": shape["n_embed"], "n_head": shape["heads"],
            "n_blocks": shape["blocks"], "vocab_size": shape["vocab"],
        },
        "optimizer": {
            "name": "adamw", "learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1,
            "grad_clip": 1.0,
        },
        "schedule": {"name": "constant", "warmup_steps": 0},
        "train": {
            "steps": steps, "batch_size": shape["batch"], "precision": precision, "eval_interval": 0,
            "log_interval": shape["log_interval"], "sample_interval": 0,
        },
        "checkpoint": {"interval": 0},
    }


def write_config(folder, config):
    file = Path(folder) / "config.json"
    file.write_text(json.dumps(config, indent=2), encoding="utf-8")
    return file


def metrics_lines(run):
    """The training lines of RUN/metrics.jsonl so far; a line being written is left out."""
    file = Path(run) / "metrics.jsonl"
    if not file.exists():
        return []
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines(True) if line.endswith("\n")]
    return [line for line in lines if "tokens_per_second" in line]


def median_after_warm_up(values):
    """As peer_train.py does it: the first fifth, at least one, is warm-up."""
    return statistics.median(values[max(1, len(values) // 5):] or values)


def wait_for(condition, process, timeout_seconds=120.0):
    """Polls every millisecond; ends the script when the process ends first or the time is up."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if process.poll() is not None:
            errors = process.stderr.read() if process.stderr else ""
            sys.exit(f"{' '.join(map(str, process.args))}: exit {process.returncode}\n{errors}")
        if time.monotonic() > deadline:
            stop(process)
            sys.exit(f"{' '.join(map(str, process.args))}: nothing after {timeout_seconds:.0f} s")
        time.sleep(0.001)


def stop(process):
    """Ends a training run at once: a second signal does not wait for the save."""
    for _ in range(2):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.02)
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def available_cores():
    return len(os.sched_getaffinity(0))


def machine():
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{model}, {available_cores()} cores"


def tril_version(binary):
    """All lines of `tril --version` on one."""
    output = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    return ", ".join(line.strip() for line in output.splitlines() if line.strip())
