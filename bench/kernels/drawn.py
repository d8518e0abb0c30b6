"""Operations drawn from families, against XLA:CPU: `python -m bench.kernels.drawn --seed 3`.

A family (`bench/kernels/families/`) is what users write in a line; sizes, types, axes and numbers
of classes are drawn, so that another seed measures kernels that nobody has seen. Both compilers are
given the same HLO and run in turn; losers come first, then what is far from the speed of a copy of
the program's arguments and results. `--json FILE` keeps the numbers, `-k WORD` chooses. With
`--suite loops` what users write as scans and whiles is drawn instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.kernels.families import (
    classes,
    elementwise,
    indexed,
    moves,
    neural,
    recurrences,
    simulations,
    sliding,
    solvers,
)
from bench.kernels.families.draw import Draw
from bench.kernels.loops import argument_parser, compare, parsed, rates
from bench.kernels.operations import row_major

FAMILIES: tuple[Callable[[Draw], Iterator[tuple[Any, ...]]], ...] = (
    *classes.FAMILIES,
    *elementwise.FAMILIES,
    *moves.FAMILIES,
    *indexed.FAMILIES,
    *sliding.FAMILIES,
    *neural.FAMILIES,
)
LOOPS: tuple[Callable[[Draw], Iterator[tuple[Any, ...]]], ...] = (
    *recurrences.FAMILIES,
    *solvers.FAMILIES,
    *simulations.FAMILIES,
)
SUITES = {"operations": FAMILIES, "loops": LOOPS}
FAR = 0.85
"""Of the speed of a copy; what is slower is shown."""


@dataclass(frozen=True)
class Drawn:
    """A function with its arguments."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]

    def text(self) -> str:
        """HLO as JAX writes it."""
        import jax

        lowered = jax.jit(self.function).lower(*self.inputs).compiler_ir("hlo")
        assert lowered is not None
        return row_major(lowered.as_hlo_text(True))

    @property
    def is_wide(self) -> bool:
        return any(x.dtype in (np.float64, np.int64, np.complex128) for x in self.inputs)


@dataclass(frozen=True)
class Row:
    """Median seconds of both, and of a copy of the arguments and results."""

    name: str
    ours: float
    theirs: float
    copy: float
    floor: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    def __str__(self) -> str:
        return (
            f"{self.name:58s} {self.ours * 1e3:9.3f} ms  xla {self.theirs * 1e3:9.3f}  ratio "
            f"{self.ratio:6.2f}  of copy {self.copy / self.ours:5.2f}  of floor "
            f"{self.floor / self.ours:5.2f}"
        )


def drawn(seed: int, word: str = "", suite: str = "operations") -> Iterator[Drawn]:
    """All programs of a seed, or those with a word in their name: each is drawn by itself."""
    for number, family in enumerate(SUITES[suite]):
        draw = Draw(np.random.default_rng((seed, number)))
        # Values are drawn apart, so that a choice of operations changes none of them.
        for count, (name, function, *shapes) in enumerate(family(draw)):
            values = Draw(np.random.default_rng((seed, number, count)))
            full = f"{family.__name__.strip('_')} {name} {' '.join(shapes)}"
            if word in full:
                yield Drawn(full, function, tuple([values.array(s) for s in shapes]))


def contest(operation: Drawn, rounds: int, seconds: float) -> Row:
    """One on both."""
    import jax

    with jax.enable_x64(operation.is_wide):
        text = operation.text()
        times = compare(text, rounds, seconds, operation.inputs)
        shapes = jax.eval_shape(operation.function, *operation.inputs)
    size = sum([x.nbytes for x in operation.inputs])
    size += sum([x.size * x.dtype.itemsize for x in jax.tree.leaves(shapes)])
    copy_s = size * rates().costs.byte_ns / rates().compute.units * 1e-9
    return Row(operation.name, times.ours, times.theirs, copy_s, times.floor)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--suite", choices=list(SUITES), default="operations")
    parser.add_argument("--json", type=Path)
    args = parsed(parser)
    rows = []
    for operation in drawn(args.seed, args.k, args.suite):
        try:
            rows.append(contest(operation, args.rounds, args.seconds))
        except Exception as error:  # what one of them cannot do is a line that says so
            print(f"{operation.name:58s} {type(error).__name__}: {str(error)[:200]!r}", flush=True)
            continue
        print(rows[-1], flush=True)
        if args.json:
            kept = [{**vars(r), "ratio": r.ratio} for r in rows]
            args.json.write_text(json.dumps(kept, indent=1))
    rows.sort(key=lambda r: -r.ratio)
    print("\nslower than XLA:CPU")
    print(*[r for r in rows if r.ratio > 1], sep="\n")
    print(f"\nslower than {FAR} of a copy")
    print(
        *sorted([r for r in rows if r.copy < FAR * r.ours], key=lambda r: r.copy / r.ours), sep="\n"
    )
    if rows:
        mean = np.exp(np.mean([np.log(r.ratio) for r in rows]))
        print(f"geometric mean of {len(rows)}: {mean:.3f}, {1 / mean:.2f} times XLA's speed")


if __name__ == "__main__":
    main()
