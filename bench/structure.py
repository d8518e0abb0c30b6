"""What each case of `bench.models` comes to, without running it: `python -m bench.structure`.

How many steps a program has, and what they move and compute over the least there is: each argument
and result moved once, each operation of the program as JAX wrote it computed once. A value that is
no longer computed where it is read shows as steps and bytes, one that is computed again for each
reader as operations. None of it is a time, so that `tests/bench/test_structure.py` can hold it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

import hloom
from bench import models
from bench.kernels.operations import row_major
from hloom.analysis.cost import module_cost
from hloom.program.thunks.thunk import walk

THREADS = 2
"""What runs side by side is another number of steps."""


@dataclass(frozen=True)
class Structure:
    """A compiled program: its steps, and what they come to over the least possible."""

    steps: int
    """Those of loops count once."""
    bytes: float
    operations: float
    functions: float
    """Transcendental ones; 1 where there are none."""

    def exceeded(self, limit: Structure, slack: float = 0.0) -> list[str]:
        """Where it is more than a limit, in words; ratios may be greater by this part."""
        found = []
        for name in ("steps", "bytes", "operations", "functions"):
            ours, most = getattr(self, name), getattr(limit, name)
            if ours > most * (1 + (0 if name == "steps" else slack)):
                found.append(f"{name} {ours:.4g}, at most {most:.4g}")
        return found


def structure_of(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    options: Mapping[str, Any] | None = None,
) -> Structure:
    """Of a function of arrays, compiled for this machine."""
    lowered = jax.jit(function).lower(*arguments).compiler_ir("hlo")
    assert lowered is not None
    module = hloom.parse(row_major(lowered.as_hlo_text(True)))
    executable = hloom.compile(module, threads=THREADS, options=dict(options or {}))
    outside = jax.tree.leaves((arguments, jax.eval_shape(function, *arguments)))
    least, ours = module_cost(module).total, executable.cost
    return Structure(
        steps=sum(1 for _ in walk(executable.thunks)),
        bytes=ours.bytes / sum(x.size * x.dtype.itemsize for x in outside),
        operations=ours.flops / max(least.flops, 1),
        functions=ours.transcendentals / least.transcendentals if least.transcendentals else 1.0,
    )


def case(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A case of `bench.models`, with zeros for its random numbers."""

    def zeros(*dims: int, of: str = models.F32, scale: float = 1.0) -> Any:
        return jnp.zeros(dims, of)

    with patch.object(models, "drawn", zeros):
        return models.CASES[name]()


def main() -> None:
    """Show all cases, those with the most bytes first."""
    parser = argparse.ArgumentParser(prog="python -m bench.structure", description=__doc__)
    parser.add_argument("words", nargs="*", help="cases whose names contain one of these")
    words = [w.lower() for w in parser.parse_args().words]
    names = [n for n in models.CASES if not words or any(w in n.lower() for w in words)]
    found = {name: structure_of(*case(name)) for name in names}
    print(f"{'over the least':34} {'steps':>6} {'bytes':>8} {'operations':>11} {'functions':>10}")
    for name, s in sorted(found.items(), key=lambda row: -row[1].bytes):
        print(f"{name:34} {s.steps:6} {s.bytes:8.3f} {s.operations:11.3f} {s.functions:10.3f}")


if __name__ == "__main__":
    main()
