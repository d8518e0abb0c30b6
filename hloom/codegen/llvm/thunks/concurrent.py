"""Runs side by side: a function for each, and a call of the executor (native/executor.h)."""

from __future__ import annotations

from hloom.codegen.llvm.main_function import EMITS, MainFunction
from hloom.program.thunks.concurrent import Concurrent, Run
from hloom.program.thunks.custom_call import CustomCall
from hloom.program.thunks.thunk import walk

HEAD, RUN, STATE = 2, 5, 3
"""HL_PLAN_HEAD, HL_PLAN_RUN and HL_STATE of native/executor.h."""


@EMITS.of(Concurrent)
def concurrent(f: MainFunction, t: Concurrent) -> None:
    functions = f.private_array([f"@{f.function(run.thunks)}" for run in t.runs])
    plan = f.numbers(plan_of(t))
    state = f.state(STATE)
    f.declared["hl_run_concurrently"] = "i32 @hl_run_concurrently(ptr, ptr, ptr, ptr, ptr)"
    f.checked_call(
        f"@hl_run_concurrently(ptr %context, ptr %buffers, ptr {functions}, ptr {plan},"
        f" ptr {state})"
    )


def plan_of(t: Concurrent) -> tuple[int, ...]:
    """The numbers that the executor goes by."""
    behind: list[list[int]] = [[] for _ in t.runs]
    for number, run in enumerate(t.runs):
        for w in run.waits:
            behind[w].append(number)
    rows: list[int] = []
    rest: list[int] = []
    start = HEAD + RUN * len(t.runs)
    for run, successors in zip(t.runs, behind):
        rows += [len(run.waits), start + len(rest), len(successors)]
        rest += successors
        sites = sites_of(run)
        rows += [start + len(rest), len(sites)]
        rest += sites
    return (len(t.runs), t.streams, *rows, *rest)


def sites_of(run: Run) -> list[int]:
    """The numbers of the custom calls that a run makes."""
    sites = [x.site for x in walk(run.thunks) if isinstance(x, CustomCall)]
    return sorted(set(sites))
