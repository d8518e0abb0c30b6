"""Compares native programs with XLA's, in a process of its own.

    native.py folds/cumsum-int32-on data/pad-bool      these programs
    native.py folds,data 40                            every fortieth of two families
    native.py                                          all

Each program is lowered by JAX, read, compiled and run natively; its results are compared with those
of XLA's code for the same processor. Prints one line of JSON for each program.
"""

import json
import os
import sys
import time
from itertools import pairwise

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np

import hloom
from hloom.compiler import compile_module
from tests.peer.programs import load
from tests.peer.programs.check import all_agree, chosen, full_text


def leaves(value) -> list[np.ndarray]:
    """The arrays of a result, tuples taken apart; tokens have none."""
    if isinstance(value, tuple | list):
        return [x for part in value for x in leaves(part)]
    return [] if value is None else [np.asarray(value)]


def expected_of(lowered, program) -> list[np.ndarray]:
    """What XLA's code computes."""
    return [np.asarray(x) for x in jax.tree.leaves(lowered.compile()(*program.arguments))]


def check(program) -> dict:
    """What is wrong with a program, empty if nothing is, and seconds of compiling and running."""
    lowered = jax.jit(program.function, keep_unused=True).lower(*program.arguments)
    text = full_text(lowered.compiler_ir("hlo").as_hlo_module())
    arguments = [np.asarray(x) for x in jax.tree.leaves(program.arguments)]
    times = [time.perf_counter()]
    executable = compile_module(hloom.parse(text), cached=False)
    times.append(time.perf_counter())
    results = leaves(executable(*arguments))
    times.append(time.perf_counter())
    wrong = all_agree(results, expected_of(lowered, program), program.slack)
    if wrong and any(x.dtype.itemsize == 1 and x.dtype.kind in "Vf" for x in results):
        # So few bits show whether intermediate values were rounded to them: XLA does so.
        exact = hloom.Options().with_(allow_excess_precision=False)
        executable = compile_module(hloom.parse(text), options=exact, cached=False)
        wrong = all_agree(leaves(executable(*arguments)), expected_of(lowered, program), 1)
    compiling, running = (round(b - a, 4) for a, b in pairwise(times))
    return {"wrong": wrong, "compile_s": compiling, "run_s": running}


def main(words: list[str]) -> None:
    programs = {name: p for name, p in load().items() if not name.startswith("devices/")}
    for name in chosen(words, programs):
        print(json.dumps({"begun": name}), flush=True)
        try:
            said = check(programs[name])
        except Exception as error:
            said = {"wrong": f"{type(error).__name__}: {str(error)[:600]}"}
        print(json.dumps({"name": name, **said}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
