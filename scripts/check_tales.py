#!/usr/bin/env python3
"""Checks the bundled corpus with nothing of tril: reads the grammar and a text, finds every
derivation of every fable from the text alone, and compares -log P with the side file.

    tril corpus tales --bytes 1000000 --seed 1 --out tales.txt
    python3 scripts/check_tales.py data/tales.grammar tales.txt [--marks FILE] [--max-bytes N]

Also prints what the corpus is like: its entropy floor, what an interpolated 5-gram model reaches on
its last tenth, its words, its plots, the length of a fable. Plain Python, no packages. Exit 0 when
all is well.
"""

import argparse
import collections
import itertools
import hashlib
import math
import re
import sys

# ---- the grammar -----------------------------------------------------------------------------
# A text is a list of parts: ("text", s), ("choice", [(weight, parts)]), ("rule", name) or
# ("slot", capitals, article, name, source), with source None for a recall.

SMALL_WORDS = {"a", "an", "and", "at", "by", "for", "from", "in", "into", "of", "on", "the", "to",
               "under", "with"}
ONES = ("no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen").split()
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()


def joined_parts(cell):
    """ "each of A B, C" is AC and BC; anything else itself."""
    if not cell.startswith("each of "):
        return [cell]
    return ["".join(parts) for parts in itertools.product(*(group.split() for group in cell[8:].split(",")))]


class Grammar:
    def __init__(self, source):
        self.tables, self.rules = {}, {}
        target = None
        for line in re.sub(r",\n +", ", ", source).splitlines():  # a row that ends in ',' goes on
            if line.startswith(('R"grammar(', ')grammar"')) or not line.strip() or line.strip()[0] == "#":
                continue
            if line.startswith("table "):
                name, columns = line[6:].split(":")
                target = self.tables.setdefault(name.strip(), (columns.split(), []))
            elif line.startswith("rule "):
                target = self.rules.setdefault(line[5:].strip(), [])
            elif isinstance(target, tuple):
                first, *cells = [cell.strip() for cell in line.split("|")]
                target[1].extend([name, *cells] for name in joined_parts(first))
            elif line.lstrip().startswith("-"):
                weight, text = re.match(r"-(\d*) ?(.*)", line.strip()).groups()
                target.append([int(weight or 1), text])
            else:
                before = target[-1][1]
                glue = "" if before.endswith(("\\n", "|", "[")) else " "
                target[-1][1] = before + glue + line.strip()
        for name, alternatives in self.rules.items():
            self.rules[name] = [(w, self.parse(text)) for w, text in alternatives]

    def parse(self, text):
        parts, at = self.parse_until(text.replace("\\n", "\n"), 0, "")
        return parts

    def parse_until(self, text, at, stops):
        parts, literal = [], ""
        while at < len(text) and text[at] not in stops:
            c = text[at]
            if c in "[<{" and literal:
                parts.append(("text", literal))
                literal = ""
            if c == "[":
                alternatives = []
                while text[at] != "]":
                    inner, at = self.parse_until(text, at + 1, "|]")
                    alternatives.append((1, inner))
                parts.append(("choice", alternatives))
                at += 1
            elif c == "<":
                end = text.index(">", at)
                parts.append(("rule", text[at + 1:end]))
                at = end + 1
            elif c == "{":
                end = text.index("}", at)
                parts.append(self.parse_slot(text[at + 1:end]))
                at = end + 1
            else:
                literal += c
                at += 1
        if literal:
            parts.append(("text", literal))
        return parts, at

    def parse_slot(self, slot):
        before, article, after, body = re.match(r"(\^*)(a )?(\^*)(.*)", slot).groups()
        name, equals, source = body.partition("=")
        return ("slot", before + after if not article else (before, after), bool(article),
                name, source if equals else None)


def large_words(text):
    words = text.split(" ")
    return " ".join(w if i and w in SMALL_WORDS else w[:1].upper() + w[1:] for i, w in enumerate(words))


def show(text, capitals, article):
    if article:
        outer, inner = capitals
        if inner:
            text = large_words(text)
        text = ("an " if text[0] in "aeiouAEIOU" else "a ") + text
        return text[0].upper() + text[1:] if outer else text
    if capitals == "^^":
        return large_words(text)
    return text[:1].upper() + text[1:] if capitals else text


def number_word(n):
    if not 0 <= n <= 99:
        raise ValueError(f"the number {n} has no word")
    if n < 20:
        return ONES[n]
    return TENS[n // 10] + ("-" + ONES[n % 10] if n % 10 else "")


def evaluate(expression, memory):
    total = 0
    for sign, term in re.findall(r"([+-]?)([^+-]+)", expression):
        factor, star, name = term.partition("*")
        if not star:
            factor, name = ("1", term) if not term.isdigit() else (term, "")
        value = int(factor) * (memory[name] if name else 1)
        total += -value if sign == "-" else value
    return total


class Search:
    """All derivations of one text, as a depth-first search with what is left to do in a list."""

    def __init__(self, grammar, text):
        self.grammar, self.text, self.found, self.reached = grammar, text, [], 0

    def run(self):
        self.walk((("rule", "fable"), None), 0, {}, 0.0)
        return self.found

    def after(self, at, piece):
        if self.text.startswith(piece, at):
            self.reached = max(self.reached, at + len(piece))
            return at + len(piece)
        return -1

    def walk(self, todo, at, memory, nats):
        while todo is not None:
            part, todo = todo
            kind = part[0]
            if kind == "text":
                at = self.after(at, part[1])
                if at < 0:
                    return
            elif kind in ("rule", "choice"):
                options = self.grammar.rules[part[1]] if kind == "rule" else part[1]
                total = sum(weight for weight, _ in options)
                for weight, parts in options:
                    then = todo
                    for p in reversed(parts):
                        then = (p, then)
                    self.walk(then, at, memory, nats + math.log(total / weight))
                return
            elif kind == "keep":  # the end of {x=<rule>}
                memory = {**memory, part[1]: self.text[part[2]:at]}
            else:
                _, capitals, article, name, source = part
                if source is None:
                    at = self.after(at, self.recall(capitals, article, name, memory))
                    if at < 0:
                        return
                elif source.startswith("<"):
                    todo = (("rule", source[1:-1]), (("keep", name, at), todo))
                else:
                    options = list(self.options(capitals, article, source, memory))
                    for value, piece in options:
                        end = self.after(at, piece)
                        if end >= 0:
                            self.walk(todo, end, {**memory, name: value}, nats + math.log(len(options)))
                    return
        if at == len(self.text):
            self.found.append(nats)

    def options(self, capitals, article, source, memory):
        if ".." in source:
            low, high = source.split("..")
            for n in range(evaluate(low, memory), evaluate(high, memory) + 1):
                yield n, show(number_word(n), capitals, article)
            return
        cell, *excluded = source.split("!")
        table, _, column = cell.partition(".")
        columns, rows = self.grammar.tables[table]
        index = columns.index(column) if column else 0
        out = {memory[name][1] for name in excluded}
        for i, row in enumerate(rows):
            if i not in out:
                yield (table, i), show(row[index], capitals, article)

    def recall(self, capitals, article, body, memory):
        name, _, column = body.partition(".")
        held = memory.get(name)
        if isinstance(held, tuple):
            columns, rows = self.grammar.tables[held[0]]
            return show(rows[held[1]][columns.index(column) if column else 0], capitals, article)
        if isinstance(held, str):
            return held
        return show(number_word(evaluate(body, memory)), capitals, article)


# ---- a baseline ------------------------------------------------------------------------------

def five_gram_nats(train, test):
    """Mean -log p per character of an interpolated 5-gram (Witten-Bell) trained on `train`."""
    order = 5
    counts = [collections.defaultdict(collections.Counter) for _ in range(order)]
    for i, c in enumerate(train):
        for n in range(min(order, i + 1)):
            counts[n][train[i - n:i]][c] += 1
    totals = [{h: (sum(cs.values()), len(cs)) for h, cs in level.items()} for level in counts]
    memo = {}
    nats = 0.0
    for i in range(order - 1, len(test)):
        key = test[i - order + 1:i + 1]
        if key not in memo:
            p = 1 / 128
            for n in range(order):
                history = key[order - 1 - n:order - 1]
                if history in totals[n]:
                    total, kinds = totals[n][history]
                    p = (counts[n][history][key[-1]] + kinds * p) / (total + kinds)
            memo[key] = -math.log(p)
        nats += memo[key]
    return nats / (len(test) - order + 1)


# ---- main ------------------------------------------------------------------------------------

def read_marks(path):
    with open(path) as file:
        magic, version, count = file.readline().split()
        marks = [(int(end), float(nats)) for end, nats in (line.split() for line in file)]
    assert (magic, version, int(count)) == ("tril-tales-marks", "1", len(marks)), "bad side file"
    return marks


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("grammar")
    options.add_argument("text")
    options.add_argument("--marks", help="side file to compare with (default: TEXT.marks)")
    options.add_argument("--max-bytes", type=int, default=1_000_000, help="parse fables up to here")
    arguments = options.parse_args()
    sys.setrecursionlimit(20_000)
    grammar = Grammar(open(arguments.grammar).read())
    text = open(arguments.text).read()
    marks = read_marks(arguments.marks or arguments.text + ".marks")

    at, total, worst, plots = 0, 0.0, 0.0, collections.Counter()
    lengths, seen = [], set()
    for end, nats in marks:
        if end > arguments.max_bytes and lengths:
            break
        fable = text[at:end]
        search = Search(grammar, fable)
        found = search.run()
        if len(found) != 1:
            print(f"FAILED: the fable at byte {at} has {len(found)} derivations (agreed up to byte "
                  f"{at + search.reached}: {text[at + search.reached:][:40]!r})")
            return 1
        total += found[0]
        worst = max(worst, abs(total - nats) / total)
        lengths.append(len(fable))
        at = end
    for start, end in zip([0] + [m[0] for m in marks], [m[0] for m in marks]):
        digest = hashlib.blake2b(text[start:end].encode(), digest_size=16).digest()
        if digest in seen:
            print(f"FAILED: the fable at byte {start} has been told before")
            return 1
        seen.add(digest)
    if worst > 1e-9 or marks[-1][0] != len(text):
        print(f"FAILED: -log P differs from the side file by {worst:.2e}, or the text is not covered")
        return 1

    cut = next(end for end, _ in marks if end >= 0.9 * len(text))
    cut_nats = dict(marks)[cut]
    floor = (marks[-1][1] - cut_nats) / (len(text) - cut)
    gram = five_gram_nats(text[:cut], text[cut:])
    words = set(re.findall(r"[a-z]+", text.lower()))
    print(f"fables parsed         {len(lengths)} of {len(marks)}, each with exactly one derivation")
    print(f"-log P of the parsed  {total:.6f} nats, worst relative difference {worst:.1e}")
    print(f"no fable twice in     {len(text)} bytes")
    print(f"entropy floor         {floor:.4f} nats per character (last tenth)")
    print(f"interpolated 5-gram   {gram:.4f} nats per character (trained on the first nine tenths)")
    print(f"distinct words        {len(words)}; characters {len(set(text))}")
    print(f"plots                 {len(grammar.rules['tale'])}")
    print(f"mean length           {len(text) / len(marks):.0f} characters")
    return 0 if gram - floor >= 0.10 and len(words) >= 400 and len(grammar.rules["tale"]) >= 20 else 1


if __name__ == "__main__":
    sys.exit(main())
