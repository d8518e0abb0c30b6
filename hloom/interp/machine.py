"""Evaluating a module: arguments in, result out.

The evaluator walks step lists (`step_list.py`). Computations in progress are generators on a stack
of its own rather than on Python's, so that call depth costs no recursion and a device can be
stopped in the middle of a loop body to wait for others (`lockstep.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from inspect import isgeneratorfunction
from typing import Any

import numpy as np
from numpy import ndarray

from hloom.base.diagnostics import EvalError, HloError
from hloom.interp.arguments import checked_arguments
from hloom.interp.context import DevicePosition, Enter, EvalContext, EvalOptions, Meet, Receive
from hloom.interp.dynamic_sizes import fitting
from hloom.interp.memory import check_memory
from hloom.interp.registry import MEANING, load_meanings
from hloom.interp.step_list import Step, StepList, hoisted, known_combiner, step_list, unknown
from hloom.interp.values import EvalValue, nesting_limit, normalised, refused, to_literal
from hloom.interp.vectorised import VectorStepList, run_vectorised, vector_step_list
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.mixed_precision import is_mixed, uniform, unify
from hloom.ir.module import Module, expect_module
from hloom.ir.text.places import naming_places
from hloom.ir.verify import verify
from hloom.types.literal import Literal

Run = Generator[Any, Any, EvalValue]


def evaluate(
    module_or_computation: Module | Computation,
    *arguments: Any,
    options: EvalOptions | None = None,
) -> Literal:
    """What a module (or one computation) returns for these arguments.

    Arguments are literals, numpy arrays, Python numbers, or nested tuples of those, one for each
    parameter; element types and shapes must be those of the parameters, but a dynamic dimension
    takes any size up to its bound. The result is a literal, a tuple literal for a tuple shape.
    Wrong arguments, operations without a meaning here and limits reached raise `EvalError`.
    """
    options = options or EvalOptions()
    module, computation = target(module_or_computation)
    machine = SharedEvaluation(options)
    context = EvalContext(machine, options, DevicePosition())
    check_memory(computation, options.memory_limit_bytes)
    written = module_or_computation
    source = written if isinstance(written, Module) else written.module
    with np.errstate(all="ignore"), nesting_limit(), naming_places(source):
        values = checked_arguments(computation, arguments, module.name if module else None)
        result = machine.run_alone(computation, values, context)
        return to_literal(result, computation.root.shape)


def target(which: Module | Computation) -> tuple[Module | None, Computation]:
    """The module, if any, and the computation to run; `EvalError` when there is no entry.

    Where an instruction mixes floats of different precision these are copies with converts.
    """
    if isinstance(which, Module):
        module, computation = which, which.entry_or_none
        if computation is None:
            raise EvalError(f"module {which.name} has no entry computation")
    else:
        if not isinstance(which, Computation):
            expect_module(which, "evaluate")
        module, computation = which.module, which
    try:
        if module is None or not is_mixed(module):
            return module, computation
    except Exception:  # nothing is hidden: what is broken is named, or else the error itself
        if module is not None:
            verify(module)  # a broken module fails to tell its types in any way: this says why
        raise
    verify(module)  # what is broken cannot be copied
    number = list(module.computations).index(computation)
    module = copy_module(module)
    computation = list(module.computations)[number]
    unify(module)
    return module, computation


class SharedEvaluation:
    """The prepared computations of one evaluation, shared by all devices of a lockstep run."""

    def __init__(self, options: EvalOptions) -> None:
        load_meanings()
        self.options = options
        self.step_lists: dict[Computation, StepList] = {}
        self.run_once: set[Computation] = set()
        self.vector_step_lists: dict[Computation, VectorStepList | None] = {}
        self.combiners: dict[Computation, str | None] = {}
        self.mail: dict[tuple[int, Any], deque[EvalValue]] = {}
        """What was sent and not yet received, by target and key."""

    def step_list(self, computation: Computation, context: EvalContext) -> StepList:
        """What to run; from the second time on without the steps that always give the same."""
        steps = self.step_lists.get(computation)
        if steps is not None and computation not in self.run_once:
            return steps
        try:
            if steps is None:
                steps = step_list(computation, self.options.memory_limit_bytes)
                self.run_once.add(computation)
            else:
                self.run_once.remove(computation)
                steps = hoisted(steps, context)
        except HloError:
            raise
        except Exception as error:
            raise refused(error, None) from error
        self.step_lists[computation] = steps
        return steps

    def run_alone(
        self, computation: Computation, values: tuple[EvalValue, ...], context: EvalContext
    ) -> EvalValue:
        """The value of a computation that need not wait for other devices."""
        return self.finished(self.run(computation, values, context))

    def finished(self, run: Run) -> EvalValue:
        """The value of a run that need not wait for other devices."""
        answer: Any = None
        while True:
            try:
                request = run.send(answer)
            except StopIteration as stop:
                return stop.value
            raise EvalError(
                "nobody sends what this waits for"
                if isinstance(request, Receive)
                else "other devices do not take part here",
                instruction=f"%{request.instruction.name}",
                hint="run all devices with evaluate_lockstep; collectives and transfers cannot "
                "be inside a reduction, sort or map",
            )

    def run(
        self, computation: Computation, values: tuple[EvalValue, ...], context: EvalContext
    ) -> Run:
        """Evaluate; a generator that yields each request it cannot answer itself."""
        return self.progress(_body(self.step_list(computation, context), values, context), context)

    def progress(self, body: Run, context: EvalContext) -> Run:
        """Run a body and all it calls.

        `stack` holds what is in progress: bodies (`_body`) and the meanings that called them.
        """
        limit = 2 * self.options.call_depth_limit
        caller: Instruction | None = None
        stack: list[tuple[Run, Instruction | None]] = [(body, None)]
        answer: Any = None
        while stack:
            top, caller = stack[-1]
            try:
                request = top.send(answer)
            except StopIteration as stop:
                answer = stop.value
                stack.pop()
                continue
            except HloError as error:
                error.instruction = error.instruction or (caller and f"%{caller.name}")
                raise
            except Exception as error:
                raise refused(error, caller) from error
            kind = type(request)
            if kind is tuple:
                stack.append(request)
                answer = None
            elif kind is Enter:
                if len(stack) > limit:
                    raise EvalError(
                        f"calls nest more than {self.options.call_depth_limit} deep",
                        instruction=f"%{caller.name}" if caller else None,
                        hint="a computation that calls itself never ends",
                    )
                stack.append((self._entered(request, context, caller), None))
                answer = None
            elif kind is Meet and request.members == (context.device.global_id,):
                answer = {context.device.global_id: request.value}
            elif kind is Receive and (
                mail := self.mail.get((context.device.global_id, request.key))
            ):
                answer = mail.popleft()
            else:
                answer = yield request
        return answer

    def _entered(self, request: Enter, context: EvalContext, caller: Instruction | None) -> Run:
        prepared = self.step_list(request.computation, context)
        if len(request.values) != len(prepared.parameters):
            raise EvalError(
                f"computation %{request.computation.name} takes {len(prepared.parameters)} "
                f"parameters, not {len(request.values)}",
                instruction=f"%{caller.name}" if caller else None,
            )
        return _body(prepared, request.values, context)

    def vectorised(
        self, computation: Computation, arrays: tuple[np.ndarray, ...], context: EvalContext
    ) -> EvalValue:
        """See `EvalContext.vectorised`."""
        if computation in self.vector_step_lists:
            prepared = self.vector_step_lists[computation]
        else:
            prepared = self.vector_step_lists[computation] = vector_step_list(self, computation)
        return run_vectorised(prepared, computation, arrays, context)

    def known_combiner(self, computation: Computation) -> str | None:
        """See `EvalContext.known_combiner`."""
        if computation not in self.combiners:
            self.combiners[computation] = known_combiner(computation)
        return self.combiners[computation]


def evaluate_step(i: Instruction, values: Sequence[EvalValue], context: EvalContext) -> EvalValue:
    """The value of one instruction on these operand values."""
    if uniform(i) is not None:
        raise EvalError(
            f"{i.opcode} mixes floats of different precision",
            instruction=f"%{i.name}",
            hint="run the pass mixed-precision-removal first",
        )
    machine = context.machine
    meaning = fitting(i, MEANING.get(i.opcode) or unknown)
    step = Step(i, meaning, False, tuple(range(len(values))), 0, ())
    step = step._replace(waits=isgeneratorfunction(step.meaning))
    slots: list[EvalValue] = [*values, None]
    prepared = StepList(i.parent, (step._replace(slot=len(values)),), slots, (), len(values))
    return machine.finished(machine.progress(_body(prepared, (), context), context))


def _body(prepared: StepList, values: tuple[EvalValue, ...], context: EvalContext) -> Run:
    """Run the steps of one computation; yields the runs of meanings that wait."""
    slots = prepared.template.copy()
    for slot, value in zip(prepared.parameters, values):
        slots[slot] = value
    i: Instruction | None = None
    tell = context.options.on_instruction
    try:
        for i, meaning, waits, operands, slot, dead in (
            prepared.steps if tell is None else _observed(prepared.steps, tell)
        ):
            result = meaning(i, context, *[slots[k] for k in operands])
            if waits:
                result = yield (result, i)
            if type(result) is not ndarray and type(result) is not tuple:
                result = normalised(result, i)
            slots[slot] = result
            for k in dead:
                slots[k] = None
    except HloError as error:
        error.instruction = error.instruction or (i and f"%{i.name}")
        raise
    except Exception as error:
        raise refused(error, i) from error
    return slots[prepared.root]


def _observed(steps: Iterable[Step], tell: Callable[[Instruction], None]) -> Iterator[Step]:
    """The steps, each told of before it is taken."""
    for step in steps:
        tell(step[0])
        yield step
