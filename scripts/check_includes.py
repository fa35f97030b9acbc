#!/usr/bin/env python3
"""Checks who includes whom: prints file:line of every include that breaks a rule, and exits 1 if there is one.

    base <- config <- {tokenizer, model, optim, distributed, plot} <- {data, checkpoint, interop}
         <- {generate, evaluate} <- {train, inspect} <- {report, bench} <- cli

A file of one of these folders ("rooms") includes "tril/<room>/..." of its own room or of one further left; rooms
inside one pair of braces do not include each other. The Torch-free part includes no Torch header, neither directly nor
through our own headers.

Usage: check_includes.py [PROJECT FOLDER]
"""

import re
import sys
from pathlib import Path

LEVELS = [
    ["base"],
    ["config"],
    ["tokenizer", "model", "optim", "distributed", "plot"],
    ["data", "checkpoint", "interop"],
    ["generate", "evaluate"],
    ["train", "inspect"],
    ["report", "bench"],
    ["cli"],
]
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}

TORCH_FREE_ROOMS = {"base", "config", "tokenizer", "plot"}
TORCH_FREE_FILES = re.compile(
    r"data/(?!batch)\w+|distributed/(world|launcher|buckets)|generate/(sampler|decode_kernels)|optim/schedule"
    r"|interop/(tensor_rules|huggingface_config|llmc|gguf_writer|tokenizer_export)"
    r"|train/(metrics|progress)|inspect/(attention_(page|report|svg)|head_scores|token_report)|report/\w+")
TORCH_HEADER = re.compile(r"(torch|ATen|c10|caffe2)/")

INCLUDE = re.compile(r'\s*#\s*include\s*["<]([^">]+)[">]')


class File:
    """One source file: its room, its name without folder of the tree and ending, and its includes with their lines."""

    def __init__(self, path, tree):
        inside = path.relative_to(tree)
        self.path = path
        self.room = inside.parts[0] if len(inside.parts) > 1 else None  # None: beside the rooms, like tril/tril.h
        self.stem = inside.with_suffix("").as_posix()
        self.name = inside.as_posix() if tree.name == "src" else f"tril/{inside.as_posix()}"  # as others include it
        self.includes = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if match := INCLUDE.match(line):
                self.includes.append((number, match[1]))

    def torch_free(self):
        return self.room in TORCH_FREE_ROOMS or TORCH_FREE_FILES.fullmatch(self.stem) is not None


def room_problem(file, header):
    """Why this file may not include this header of ours, or None."""
    parts = header.split("/")
    if ".." in parts and header.endswith((".h", ".cpp")):
        return "write the path from include/ on, without '..'"
    if len(parts) > 1 and parts[0] in LEVEL:
        parts = ["tril"] + parts  # a header in src/<room>, by its path in src
    if parts[0] != "tril" or file.room is None:
        return None
    if len(parts) == 2:
        return f"a file in a room does not include what stands beside the rooms; include what you use of {header}"
    room = parts[1]
    if room not in LEVEL:
        return f"no room of this name: {room} (known: {', '.join(LEVEL)})"
    if room == file.room or LEVEL[room] < LEVEL[file.room]:
        return None
    relation = "beside" if LEVEL[room] == LEVEL[file.room] else "to the right of"
    return f"{room} stands {relation} {file.room}; an include points to the left only"


def torch_chain(header, headers, seen):
    """The chain of headers from this one to a Torch header, or None."""
    if TORCH_HEADER.match(header):
        return [header]
    if header not in headers or header in seen:
        return None
    seen.add(header)
    for _, inner in headers[header].includes:
        if chain := torch_chain(inner, headers, seen):
            return [header] + chain
    return None


def problems(project):
    public = project / "include" / "tril"
    files = [
        File(path, tree)
        for tree in (public, project / "src")
        for path in sorted(tree.rglob("*"))
        if path.suffix in (".h", ".cpp")
    ]
    headers = {file.name: file for file in files if file.path.suffix == ".h"}
    if not files:
        yield f"{project}: no .h or .cpp file in include/tril or src; is this the project's folder?"
    for file in files:
        where = file.path.relative_to(project).as_posix()
        if file.room is not None and file.room not in LEVEL:
            yield f"{where}:1: no room of this name: {file.room} (known: {', '.join(LEVEL)})"
            continue
        for line, header in file.includes:
            if problem := room_problem(file, header):
                yield f"{where}:{line}: #include \"{header}\": {problem}"
            elif file.torch_free() and (chain := torch_chain(header, headers, set())):
                yield f"{where}:{line}: the Torch-free part reaches a Torch header: {' -> '.join(chain)}"


def main():
    project = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    found = list(problems(project))
    print("\n".join(found) if found else "every include points to the left")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
