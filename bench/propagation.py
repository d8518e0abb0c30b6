"""Shardings that propagation finds, beside XLA's: `python -m bench.propagation [words] [--most 3]`.

Each operation of `propagation_forms.py` stands between others on elements; every dimension of each
operand and of the result is cut along each axis of a mesh of 2 x 4 devices, two values at a time,
too. jaxlib's built-in backend prints the program before and after its own propagation; hloom's
propagates the former. Of every value the tiles are compared: where it has fewer, it is named.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from math import prod
from pathlib import Path

import hloom
from bench.propagation_forms import CONDITIONAL, FORMS, WHILE, Form
from hloom.ir.values.sharding import Sharding

MESH = (2, 4)
SHOWN = ("sharding-propagation", "before_sharding-propagation", "after_sharding-propagation")


def sizes_of(shape: str) -> list[int]:
    return [int(n) for n in shape[shape.index("[") + 1 : -1].split(",") if n]


def cut(rank: int, d: int, axis: int) -> str:
    """Dimension d along the first or second axis, or along both (2)."""
    tiles = [1] * rank
    tiles[d] = 8 if axis == 2 else MESH[axis]
    text = ",".join(map(str, tiles))
    if axis == 2:
        return f"{{devices=[{text}]<=[8]}}"
    order = "<=[8]" if axis == 0 else "<=[2,4]T(1,0)"
    return f"{{devices=[{text},{8 // MESH[axis]}]{order} last_tile_dim_replicate}}"


def cut_twice(rank: int, d: int, e: int) -> str:
    """Dimension d along the first axis, e along the second."""
    tiles = [1] * rank
    tiles[d], tiles[e] = MESH
    order = "<=[8]" if d < e else "<=[2,4]T(1,0)"
    return f"{{devices=[{','.join(map(str, tiles))}]{order}}}"


def program(name: str, form: Form, marks: dict[int, str]) -> str:
    """An operation between operations on elements; what is marked is two steps away from it, the
    result by the number behind the last operand."""
    lines = []

    def mark(k: int) -> str:
        return f", sharding={marks[k]}" if k in marks else ""

    for k, s in enumerate(form.operands):
        lines.append(f"p{k} = {s} parameter({k}), sharding={{replicated}}")
        lines.append(f"x{k} = {s} sine(p{k}){mark(k)}")
        lines.append(f"y{k} = {s} cosine(x{k})")
        if f"@{k}" in form.text:
            other = "c64" if form.text.startswith("c64") else "s32"
            lines.append(f"c{k} = {other}{s[s.index('[') :]} convert(y{k})")
    count = len(form.operands)
    lines += ["zero = f32[] constant(0)", f"i0 = s32[] parameter({count}), sharding={{replicated}}"]
    text = re.sub(r"@(\d)", r"c\1", re.sub(r"\$(\d)", r"y\1", form.text))
    result = text.split(" ")[0]
    real = result.replace("c64", "f32")
    lines += [
        f"r = {text}",
        f"u = {real} {'negate' if real == result else 'real'}(r)",
        f"v = {real} negate(u){mark(count)}",
        f"ROOT o = ({real}) tuple(v)",
    ]
    body = "\n".join(f"  {line}" for line in lines)
    return f"HloModule {name}, num_partitions=8\n\n{form.called}ENTRY main {{\n{body}\n}}\n"


def marked(form: Form) -> Iterator[tuple[str, dict[int, str]]]:
    """What is marked, and how, with a word for it."""
    shapes = [*form.operands, form.text.split(" ")[0]]
    sizes = [sizes_of(s) for s in shapes]
    for k, own in enumerate(sizes):
        for d, axis in itertools.product(range(len(own)), range(3)):
            if own[d] >= (*MESH, 8)[axis]:
                yield f"{k}_{d}_{axis}", {k: cut(len(own), d, axis)}
        for d, e in itertools.permutations(range(len(own)), 2):
            if own[d] >= MESH[0] and own[e] >= MESH[1]:
                yield f"{k}_both_{d}{e}", {k: cut_twice(len(own), d, e)}
    for (k, a), (j, b) in itertools.combinations(enumerate(sizes), 2):
        for d, e in itertools.product(range(len(a)), range(len(b))):
            if a[d] >= MESH[0] and b[e] >= MESH[1]:
                yield f"{k}{d}_{j}{e}", {k: cut(len(a), d, 0), j: cut(len(b), e, 1)}


def programs(words: list[str]) -> dict[str, str]:
    """All of them by name, or those of operations whose names hold one of the words."""
    texts = {
        f"{name}__{word}": program(f"{name}__{word}", form, marks)
        for name, form in FORMS.items()
        for word, marks in marked(form)
    }
    cuts = {"n": "", "a": cut(2, 0, 0), "b": cut(2, 1, 1), "c": cut(2, 0, 2)}
    for name, text in (("while", WHILE), ("conditional", CONDITIONAL)):
        for word in map("".join, itertools.product(cuts, repeat=3)):
            marks = [f", sharding={cuts[c]}" if cuts[c] else "" for c in word]
            own = text
            for place, mark in zip(("BEFORE", "INSIDE", "BEHIND"), marks, strict=True):
                own = own.replace(place, mark)
            texts[f"{name}__{word}"] = f"HloModule {name}__{word}, num_partitions=8\n\n{own}"
    kept = [n for n in texts if not words or any(w in n.split("__")[0] for w in words)]
    return {n: texts[n] for n in kept}


def propagated_by_xla(texts: dict[str, str], folder: Path) -> Iterator[tuple[str, str, str]]:
    """Names of programs, and each before and after XLA's propagation; those that it refuses are
    left out."""
    from bench.partition_random import compiled_by_xla  # sets flags, too

    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count=8 --xla_dump_to={folder} "
        f"--xla_dump_hlo_as_text --xla_dump_hlo_pass_re={SHOWN[0]}"
    )
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    for name, text in texts.items():
        try:
            compiled_by_xla(hloom.parse(text))
        except jax.errors.JaxRuntimeError as error:
            print(f"{name:32} left out: {' '.join(str(error).split())[:100]}")
        shown = [sorted(folder.glob(f"*.{name}.*{way}*")) for way in SHOWN[1:]]
        if all(shown):
            yield name, shown[0][0].read_text(), shown[1][0].read_text()
        for path in folder.glob(f"*{name}*"):
            if path.is_file():
                path.unlink()


def tiles(sharding: Sharding | None, shape: hloom.Shape) -> list[tuple[int, ...]]:
    """Into how many parts each dimension of each array of a value is cut."""
    parts: list[tuple[int, ...]] = []
    for k, leaf in enumerate(shape.leaves()):
        own = None if sharding is None else sharding.for_leaf(k).tiled()
        is_cut = own is not None and own.kind == "tiled"
        parts.append(own.tile_dims[: leaf.rank] if own and is_cut else (1,) * leaf.rank)
    return parts


def compared(before: str, after: str) -> tuple[Counter[str], list[str]]:
    """How many values have as many tiles as XLA's, more, fewer, or as many elsewhere; the fewer."""
    ours, theirs = hloom.parse(before), hloom.parse(after)
    hloom.pass_named("sharding-propagation").run(ours)
    of_xla = {(i.parent.name, i.name): i for i in theirs.instructions()}
    counts: Counter[str] = Counter()
    fewer: list[str] = []
    for i in ours.instructions():
        other = of_xla.get((i.parent.name, i.name))
        if other is None or i.opcode == "constant" or not i.shape.leaf_count:
            continue
        for a, b in zip(tiles(i.sharding, i.shape), tiles(other.sharding, i.shape), strict=True):
            if a == b or prod(a) != prod(b):
                word = "same" if a == b else "fewer" if prod(a) < prod(b) else "more"
            else:
                word = "elsewhere"
            counts[word] += 1
            if word == "fewer":
                fewer.append(f"%{i.name} ({i.opcode}) {list(a)}, XLA {list(b)}")
    return counts, fewer


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--most", type=int, default=3, help="programs shown of each operation")
    asked = parser.parse_args()
    totals: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for name, before, after in propagated_by_xla(programs(asked.words), Path(folder)):
            counts, fewer = compared(before, after)
            totals += counts + Counter({"programs": 1, "programs with fewer": bool(fewer)})
            family = name.split("__")[0]
            shown[family] += bool(fewer)
            if fewer and shown[family] <= asked.most:
                print(f"{name:32} {'; '.join(fewer[:3])}")
    print("; ".join(f"{n} {k}" for k, n in totals.items()))
    print("fewer in " + ", ".join(f"{k} {n}" for k, n in shown.items() if n))


if __name__ == "__main__":
    main()
