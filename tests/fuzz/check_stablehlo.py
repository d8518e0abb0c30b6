"""A drawn StableHLO program: read, verified, interpreted, compiled, and as XLA:CPU computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.frontends.stablehlo.read import module_of_text
from hloom.ir.module import Module
from hloom.ir.verify import violations
from hloom.types.literal import Literal
from tests.fuzz.check_native import (
    NotJudged,
    Trial,
    arguments_of,
    coarsest_of,
    compiled,
    difference,
    different,
    leaves,
    literal_leaves,
)
from tests.fuzz.stablehlo.sketch import Program
from tests.fuzz.stablehlo.xla_worker import Xla


@dataclass(frozen=True)
class Answer:
    """`what` is same, refused (by us and by XLA), unjudged (XLA does not know it), or a fault."""

    what: str
    why: str = ""

    @property
    def is_fault(self) -> bool:
        return self.what.startswith("fault")


def check(program: Program, trial: Trial, xla: Xla | None) -> Answer:
    try:
        module = module_of_text(program.text)
    except HloError as error:
        return _refused(program, trial, xla, str(error))
    except Exception as error:
        return Answer("fault: traceback", f"{type(error).__name__}: {error}")
    if found := list(violations(module)):
        return Answer("fault: does not verify", str(found[0]))
    unsaid = ""
    try:
        if what := difference(module, trial):
            return Answer("fault: native", what)
    except NotJudged as error:
        unsaid = str(error)
    except Exception as error:
        return Answer("fault: traceback", f"{type(error).__name__}: {error}")
    if xla is None:
        return Answer("unjudged" if unsaid else "same", unsaid)
    return _as_xla(program, module, trial, xla, unsaid)


def _refused(program: Program, trial: Trial, xla: Xla | None, why: str) -> Answer:
    """A program that we do not read: right where XLA does not either."""
    if xla is None:
        return Answer("refused", why)
    said, theirs = xla.ask(program.text, [])
    if said == "refused" and "expected" not in theirs and "rguments" not in theirs:
        return Answer("refused", why)
    if said == "refused" and "Execution supplied 0" not in theirs:
        return Answer("refused", why)
    return Answer("fault: we refuse", f"{why}\n    XLA: {said} {str(theirs)[:200]}")


def _as_xla(program: Program, module: Module, trial: Trial, xla: Xla, unsaid: str) -> Answer:
    arguments = arguments_of(module, trial)
    given = [flushed(leaf.array) for a in arguments for leaf in literal_leaves(a)]
    said, theirs = xla.ask(program.text, given)
    if said != "values":
        return Answer("unjudged", f"{unsaid or 'XLA'}: {said} {str(theirs)[:300]}")
    try:
        with np.errstate(all="ignore"):
            made = [np.array(x.numpy()) for x in leaves(compiled(module, trial)(*given))]
    except HloError as error:
        return Answer("fault: not compiled", str(error))
    if len(made) != len(theirs):
        return Answer("fault: values", f"{len(made)} results, not {len(theirs)}")
    for k, (got, want) in enumerate(zip(made, theirs, strict=True)):
        if what := values_differ(program, module, trial, got, want):
            return Answer("fault: values", f"result {k}: {what}")
    return Answer("same")


def flushed(x: Any) -> Any:
    """Without the smallest numbers of f32 and f64, which XLA takes for 0."""
    if x.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        return x
    least = np.finfo(x.dtype).tiny
    if x.dtype.kind == "c":
        made = np.empty_like(x)
        made.real, made.imag = flushed(x.real), flushed(x.imag)
        return made
    return np.where(np.abs(x) < least, np.copysign(0, x), x).astype(x.dtype)


def values_differ(program: Program, module: Module, trial: Trial, got: Any, want: Any) -> str:
    if got.shape != want.shape or got.dtype.itemsize != want.dtype.itemsize:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    want = want.view(got.dtype)  # XLA returns random bits without their sign

    with np.errstate(all="ignore"):
        if not program.is_exact:
            return different(got, Literal.of(want), trial, coarsest_of(module))
        same = got == want
        if got.dtype.kind not in "biu":
            same |= (got != got) & (want != want)
    places = np.argwhere(~np.asarray(same))
    if not len(places):
        return ""
    at = tuple(int(k) for k in places[0])
    return f"{len(places)} of {got.size} differ: {list(at)} is {got[at]!r}, not {want[at]!r}"
