"""Compares programs with XLA, in a process of its own.

    check.py folds/cumsum-int32-on data/pad-bool       these programs
    check.py folds,data 40                             every fortieth of two families
    check.py                                           all

For each program, as lowered and as XLA compiled it: our parser, verifier, printer and proto
against jaxlib's, and the value we compute against the one XLA computes; passes must keep both.
Prints one line of JSON for each program: its name, and what went wrong at which stage.
"""

import json
import os
import sys
import traceback

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
from jaxlib import _hlo

import hloom
from hloom.base.diagnostics import EvalError, UsageError
from hloom.ir.copy import copy_module
from hloom.ir.proto import module_from_bytes, module_to_bytes
from hloom.ir.text import PrintOptions, parse_module, show_module
from hloom.passes import PASSES, Pipeline, pass_named
from hloom.types.literal import Literal
from tests.peer.programs import load

TOLERANCE = {
    "float64": 1e-10,
    "complex128": 1e-10,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
}
FULL = PrintOptions(large_constants=True)
# Of what jaxlib writes, some is in the text only and some in the proto only.
IN_ONE_ONLY = (
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "num_partitions",
    "replica_count",
    "spmd_output_sharding",
    "spmd_parameters_shardings",
)
NO_MEANING = ("has no meaning", "custom_call", "custom call", "target")


def canonical(module) -> list[str]:
    """jaxlib's print, the computations in one order."""
    options = _hlo.HloPrintOptions.canonical()
    options.print_large_constants = True
    return sorted(part.strip() for part in module.to_string(options).split("\n\n"))


def full_text(module) -> str:
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return module.to_string(options)


def flat(value) -> list[np.ndarray]:
    if isinstance(value, Literal) and not value.is_tuple:
        return [] if value.shape.is_token else [value.array]
    return [x for e in value.elements for x in flat(e)]


def difference(mine: np.ndarray, other: np.ndarray, slack: float) -> str:
    """Where two arrays differ by more than their type allows; empty when they do not."""
    if mine.shape != other.shape or mine.dtype != other.dtype:
        return f"{mine.dtype}{mine.shape} is not {other.dtype}{other.shape}"
    if mine.dtype.kind in "iub" or "int" in mine.dtype.name:
        wrong = mine != other
        wide = mine.dtype
    else:
        wide = np.complex128 if mine.dtype.kind == "c" else np.float64
        tolerance = TOLERANCE.get(mine.dtype.name, 0.13) * slack
        finite = np.abs(other[np.isfinite(other)].astype(wide))
        scale = min(1.0, finite.max()) if finite.size else 1.0
        a, b = mine.astype(wide), other.astype(wide)
        wrong = ~np.isclose(a, b, tolerance, tolerance * scale, equal_nan=True)
    if not np.any(wrong):
        return ""
    where = tuple(int(k[0]) for k in np.nonzero(np.atleast_1d(wrong)))
    a, b = np.atleast_1d(mine)[where], np.atleast_1d(other)[where]
    return f"{int(np.sum(wrong))} of {wrong.size} differ, at {where}: ours {a}, XLA's {b}"


class Check:
    """The stages of one program; what went wrong is collected, not raised."""

    def __init__(self, name: str, deep: bool) -> None:
        self.name, self.deep = name, deep
        self.wrong: list[tuple[str, str]] = []
        self.done: list[str] = []

    def stage(self, title: str, run, *arguments):
        """Run a stage; it raises or returns a complaint when something is wrong."""
        try:
            value = run(*arguments)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f" [{last.filename}:{last.lineno}]"
            if isinstance(error, EvalError) and any(w in str(error) for w in NO_MEANING):
                self.done.append(f"{title}: no meaning")
                return None
            self.wrong.append((title, f"{type(error).__name__}: {str(error)[:600]}{place}"))
            return None
        if isinstance(value, str) and value:
            self.wrong.append((title, value))
            return None
        self.done.append(title)
        return value if value is not None else True

    def languages(self, title: str, theirs):
        """Text and proto in both directions; returns our module."""
        text = full_text(theirs)
        module = self.stage(f"{title} parse", parse_module, text)
        if module is None:
            return None
        if self.stage(f"{title} verify", violated, module) is None:
            return None
        self.stage(f"{title} text", text_agrees, module, text)
        self.stage(f"{title} proto", proto_agrees, module, theirs)
        return module

    def value(self, title: str, module, arguments, expected, slack) -> None:
        self.stage(f"{title} value", value_agrees, module, arguments, expected, slack)


def violated(module) -> str:
    return "; ".join(str(v)[:300] for v in list(hloom.violations(module))[:3])


def text_agrees(module, text: str) -> str:
    mine = show_module(module, FULL)
    if found := hloom.difference(module, parse_module(mine)):
        return f"printing and parsing: {found}"
    theirs = canonical(_hlo.hlo_module_from_text(text))
    return unequal("text", theirs, canonical(_hlo.hlo_module_from_text(mine)))


def proto_agrees(module, theirs) -> str:
    data = theirs.as_serialized_hlo_module_proto()
    read = module_from_bytes(data)
    for name in IN_ONE_ONLY:
        setattr(read, name, getattr(module, name))
    if found := hloom.difference(module, read):
        return f"their text is not their proto: {found}"
    mine = module_to_bytes(module)
    if found := hloom.difference(module, module_from_bytes(mine)):
        return f"writing and reading: {found}"
    load = _hlo.HloModule.from_serialized_hlo_module_proto
    return unequal("proto", canonical(load(data)), canonical(load(mine)))


def unequal(what: str, theirs: list[str], ours: list[str]) -> str:
    for a, b in zip(theirs, ours):
        for x, y in zip(a.split("\n"), b.split("\n")):
            if x != y:
                return f"{what}: theirs {x[:250]!r}, ours {y[:250]!r}"
    return "" if len(theirs) == len(ours) else f"{what}: another number of computations"


def value_agrees(module, arguments, expected, slack) -> str:
    return all_agree(flat(hloom.evaluate(module, *arguments)), expected, slack)


def all_agree(mine, expected, slack) -> str:
    if len(mine) != len(expected):
        return f"{len(mine)} results, not {len(expected)}"
    found = [difference(a, b, slack) for a, b in zip(mine, expected)]
    return "; ".join(f"result {k}: {f}" for k, f in enumerate(found) if f)


def keeps(names, module, arguments, expected, slack) -> str:
    """Passes run on a copy, each by itself (no order of all would do), which must verify and keep
    its value. Those go without that need what does not hold of it, and say so."""
    made = copy_module(module)
    for name in names:
        try:
            made = Pipeline.assuming(name, (pass_named(name),)).run(made).module or made
        except UsageError as error:
            if error.rule != "pass-order":
                raise
    return violated(made) or value_agrees(made, arguments, expected, slack)


def check(name: str, program, deep: bool) -> dict:
    c = Check(name, deep)
    if name.startswith("devices/"):
        from tests.peer.programs.lockstep import check_lockstep

        check_lockstep(c, program)
        return {"name": name, "done": c.done, "wrong": c.wrong}
    lowered = jax.jit(program.function, keep_unused=True).lower(*program.arguments)
    arguments = [np.asarray(x) for x in jax.tree.leaves(program.arguments)]
    compiled = lowered.compile()
    expected = [np.asarray(x) for x in jax.tree.leaves(compiled(*program.arguments))]
    before = c.languages("lowered", lowered.compiler_ir("hlo").as_hlo_module())
    if before is not None:
        c.value("lowered", before, arguments, expected, program.slack)
        failed = any(stage == "lowered value" for stage, _ in c.wrong)
        no_meaning = "lowered value: no meaning" in c.done
        if not failed and not no_meaning:
            given = before, arguments, expected, program.slack
            for one in sorted(PASSES) if deep else ():
                c.stage(f"pass {one}", keeps, [one], *given)
            c.stage("all passes", keeps, sorted(PASSES), *given)
    after = c.languages("compiled", compiled.runtime_executable().hlo_modules()[0])
    if after is not None:
        c.value("compiled", after, arguments, expected, program.slack)
        if "compiled value" in c.done:
            given = after, arguments, expected, program.slack
            c.stage("all passes on compiled", keeps, sorted(PASSES), *given)
    return {"name": name, "done": c.done, "wrong": c.wrong}


def one_of(count: int, family: str, programs: dict) -> list[str]:
    """Every so manyth program of a family, three at least."""
    names = [name for name in programs if name.startswith(f"{family}/")]
    return names[:: min(count, len(names) // 3)]


def chosen(words: list[str], programs: dict) -> list[str]:
    """The names of the programs that the command line asks for."""
    if len(words) == 2 and words[1].isdigit():
        return [n for f in words[0].split(",") for n in one_of(int(words[1]), f, programs)]
    return words or list(programs)


def main(words: list[str]) -> None:
    programs = load()
    deep = "HLOOM_PEER_ALL" in os.environ
    for name in chosen(words, programs):
        print(json.dumps({"begun": name}), flush=True)
        try:
            said = check(name, programs[name], deep)
        except Exception as error:
            said = {"name": name, "refused": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
