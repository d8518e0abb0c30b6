"""A drawn StableHLO program: read, verified, interpreted, compiled, and as XLA:CPU computes it."""

from __future__ import annotations

import re
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

ROUGH = re.compile(r"chlo\.(broadcast_)?(zeta|polygamma|lgamma)\b")
"""Where XLA has NaN for lack of range (zeta(1e9, 2) is 0), and 5e-7 for 0 (lgamma(1))."""
ROUGH_BY = 2e-6
UNSIGNED_POWER = re.compile(r"power.*xui\d+>")
"""XLA takes a large unsigned exponent for a negative one."""


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
    if UNSIGNED_POWER.search(program.text):
        return ""
    if trial.arguments == "special" and got.dtype.kind == "c":
        return ""  # XLA takes another side of cuts at -0, and has NaN where C99 has limits
    if ROUGH.search(program.text):
        with np.errstate(all="ignore"):
            rough = np.isnan(want) | (np.abs(got - want) <= ROUGH_BY)
        want = np.where(rough, got, want)

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
