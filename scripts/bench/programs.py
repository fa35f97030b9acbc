"""Programs that train, as compare.py runs them: each goes on until it is stopped, and can be paused and resumed.

A program reports groups of steps, (tokens, seconds), while it runs. A pause lies inside one group; that group, the
first that ends after the pause, is left out.
"""

import array
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import common


class Program:
    """A training program in a process group of its own, with its output in files of `folder`."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = Path(folder)
        self.process = None
        self.peak_bytes = 0

    def command(self):
        raise NotImplementedError

    def groups(self):
        """All groups so far: [(tokens, seconds)]."""
        raise NotImplementedError

    def environment(self):
        return {}

    def start(self):
        self.folder.mkdir(parents=True)
        with open(self.folder / "out", "wb") as out, open(self.folder / "err", "wb") as err:
            self.process = subprocess.Popen(
                [str(word) for word in self.command()], cwd=self.folder, stdout=out, stderr=err,
                stdin=subprocess.DEVNULL, start_new_session=True, env=os.environ | self.environment())

    def output(self):
        return (self.folder / "out").read_text(encoding="utf-8", errors="replace")

    def pause(self):
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.killpg(self.process.pid, signal.SIGCONT)

    def wait_for_groups(self, count, timeout_seconds):
        """Until `count` groups have ended; ends the script when the program ends first."""
        deadline = time.monotonic() + timeout_seconds
        while len(self.groups()) < count:
            if self.process.poll() is not None:
                errors = (self.folder / "err").read_text(encoding="utf-8", errors="replace")[-2000:]
                sys.exit(f"{self.name} ended with {self.process.returncode}: {errors or self.output()[-2000:]}")
            if time.monotonic() > deadline:
                sys.exit(f"{self.name}: nothing after {timeout_seconds:.0f} s; output in {self.folder}")
            time.sleep(0.02)

    def turn(self, seconds, timeout_seconds=300):
        """Runs for about `seconds`, at least two groups; tokens/s (median of the groups). It is paused before and after."""
        before = len(self.groups())
        self.resume()
        end = time.monotonic() + seconds
        self.wait_for_groups(before + 2, timeout_seconds)
        time.sleep(max(0.0, end - time.monotonic()))
        self.pause()
        return statistics.median(tokens / taken for tokens, taken in self.groups()[before + 1:])

    def read_peak(self):
        """The high-water mark of the program's memory, while it still lives."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                self.peak_bytes = int(line.split()[1]) * 1024

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Tril(Program):
    def __init__(self, name, folder, binary, shape, threads, precision, settings):
        super().__init__(name, folder)
        self.binary, self.shape, self.threads = binary, shape, threads
        self.precision, self.settings = precision, settings
        self.tokens = shape["batch"] * shape["context"] * shape["log_interval"]

    def command(self):
        config = common.tril_config(self.shape, self.threads, self.precision)
        file = common.write_config(self.folder, config)
        words = [self.binary, "train", "--config", file, "--run-dir", self.folder / "run", "--quiet"]
        for setting in self.settings:
            words += ["--set", setting]
        return words

    def groups(self):
        return [(self.tokens, self.tokens / line["tokens_per_second"])
                for line in common.metrics_lines(self.folder / "run")]


class TorchPeer(Program):
    """peer_train.py with one of its models."""

    def __init__(self, name, folder, python, shape, threads, model, precision, compiled, checkout=None):
        super().__init__(name, folder)
        self.words = [python, Path(__file__).parent / "peer_train.py", "--stream", "--steps", 1_000_000_000,
                      "--threads", threads, "--model", model, "--precision", precision]
        for key, value in shape.items():
            self.words += ["--" + key.replace("_", "-"), value]
        if compiled:
            self.words.append("--compile")
        if checkout:
            self.words += ["--checkout", checkout]

    def command(self):
        return self.words

    def groups(self):
        lines = [json.loads(line) for line in self.output().splitlines(True)
                 if line.startswith("{") and line.endswith("\n")]  # nanoGPT prints lines of its own
        return [(line["tokens"], line["seconds"]) for line in lines if "tokens" in line]


class LlmC(Program):
    """train_gpt2 of a checkout of llm.c: GPT-2 124M, T 64, B 4, fp32, no other shape; built as its Makefile says,
    with random weights and ids. It ends by itself after 41 steps."""

    STEP = re.compile(r"^step \d+: train loss \S+ \(took ([0-9.]+) ms\)$", re.MULTILINE)
    LAYERS, WIDTH, VOCAB, PADDED_VOCAB, CONTEXT = 12, 768, 50257, 50304, 1024

    def __init__(self, name, folder, checkout, threads):
        super().__init__(name, folder)
        self.checkout, self.threads = Path(checkout).resolve(), threads
        if not (self.checkout / "train_gpt2.c").is_file():
            sys.exit(f"{self.checkout}/train_gpt2.c does not exist: --llmc is a checkout of llm.c")

    def environment(self):
        return {"OMP_NUM_THREADS": str(self.threads)}

    def command(self):
        source = self.folder / "llm.c"
        shutil.copytree(self.checkout, source, ignore=shutil.ignore_patterns(".git"))
        built = subprocess.run(["make", "-C", source, "train_gpt2", "CC=gcc"], capture_output=True, text=True)
        if built.returncode != 0:
            sys.exit(f"llm.c does not build:\n{built.stderr}")
        self.write_weights(self.folder / "gpt2_124M.bin")
        self.write_tokenizer(self.folder / "gpt2_tokenizer.bin")
        data = self.folder / "dev" / "data" / "tinyshakespeare"
        data.mkdir(parents=True)
        for split in ("train", "val"):
            self.write_tokens(data / f"tiny_shakespeare_{split}.bin")
        return ["stdbuf", "-oL", source / "train_gpt2"]

    def write_weights(self, file):
        c, layers = self.WIDTH, self.LAYERS
        count = (self.PADDED_VOCAB + self.CONTEXT) * c + layers * (12 * c * c + 13 * c) + 2 * c
        block = array.array("f", (random.gauss(0.0, 0.02) for _ in range(1 << 18)))
        header = [20240326, 3, self.CONTEXT, self.VOCAB, layers, 12, c, self.PADDED_VOCAB] + [0] * 248
        with open(file, "wb") as out:
            array.array("i", header).tofile(out)
            while count > 0:
                block[:min(count, len(block))].tofile(out)
                count -= len(block)

    def write_tokenizer(self, file):
        with open(file, "wb") as out:
            array.array("I", [20240328, 2, self.VOCAB, self.VOCAB - 1] + [0] * 252).tofile(out)
            out.write(b"\x01x" * self.VOCAB)

    def write_tokens(self, file):
        count = 1 << 16
        with open(file, "wb") as out:
            array.array("i", [20240520, 1, count] + [0] * 253).tofile(out)
            array.array("H", (random.randrange(self.VOCAB) for _ in range(count))).tofile(out)

    def groups(self):
        return [(4 * 64, float(ms) / 1000) for ms in self.STEP.findall(self.output())]
