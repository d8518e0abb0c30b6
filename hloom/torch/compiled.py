"""A compiled model: tensors in, tensors out, its weights as constants or as arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.api import Executable, Literal, Module, UsageError
from hloom.torch.tensors import array_of, kind_of, tensor_of, text_of, torch_and_trees
from hloom.torch.weights import Freezing, Watch


class WeightsChangedWarning(RuntimeWarning):
    """The weights of a model are no longer those that its program has as constants."""


@dataclass(frozen=True)
class Captured:
    """A model's graph, and how tensors go in and come out."""

    module: Module
    tensors: Sequence[Any]
    """Parameters and buffers."""
    state: tuple[np.ndarray, ...]
    """The same as arrays, which share their memory where they can."""
    names: tuple[str, ...]
    """Of each, as `state_dict` has it."""
    written: tuple[int, ...]
    """The numbers of the buffers and parameters that the last results are for."""
    inputs: tuple[Any, ...]
    """Sizes and type of each leaf of the arguments; what it is, where it is no tensor."""
    in_tree: Any
    outputs: tuple[Any, ...]
    """The leaves of the result: None where the program computes it, else what it is."""
    out_tree: Any

    def with_constants(self) -> Module:
        """The graph with the weights as constants; parameters are the arguments, behind buffers
        that are written to."""
        literals = {
            k: Literal.owning(array) for k, array in enumerate(self.state) if k not in self.written
        }
        return self.module.with_constants(literals)


class Compiled:
    """A model to be called with tensors; gives tensors. It has no gradients.

    `freezing` says whether its weights are constants, and why.
    """

    def __init__(
        self,
        captured: Captured,
        freezing: Freezing,
        executable_of: Callable[[Module], Executable],
        *,
        is_watched: bool,
    ) -> None:
        self.freezing = freezing
        self._inputs, self._in_tree = captured.inputs, captured.in_tree
        self._outputs, self._out_tree = captured.outputs, captured.out_tree
        _, pytree = torch_and_trees()
        leaves = pytree.tree_unflatten(range(len(self._inputs)), self._in_tree)
        self._is_flat = leaves == (tuple(range(len(self._inputs))), {})
        """Whether it takes tensors one by one: trees are slow, of which many calls have none."""
        self._is_single = self._out_tree.is_leaf()
        self._executable_of = executable_of
        self._module, self._tensors = captured.module, captured.tensors
        self._state, self._places = list(captured.state), captured.written
        self._all_places = captured.written
        self._written = [captured.tensors[k] for k in captured.written]
        self._watch: Watch | None = None
        if freezing.is_frozen:
            numbers = sorted(captured.written)
            self._state = [captured.state[k] for k in numbers]
            self._places = tuple(map(numbers.index, captured.written))
            # What is watched is read before it is compiled: who writes meanwhile is seen, too.
            others = [k for k in range(len(captured.tensors)) if k not in captured.written]
            tensors, state = ([x[k] for k in others] for x in (captured.tensors, captured.state))
            self._watch = Watch(tensors, state) if is_watched else None
        module = captured.with_constants() if freezing.is_frozen else captured.module
        self.executable = executable_of(module)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        torch, pytree = torch_and_trees()
        leaves, is_alike = arguments, self._is_flat and not keywords
        if not is_alike or any(type(x) is not torch.Tensor for x in arguments):
            leaves, tree = pytree.tree_flatten((arguments, keywords))
            is_alike = tree == self._in_tree
        kinds = tuple(map(kind_of, leaves))
        if not is_alike or kinds != self._inputs:
            raise UsageError(
                f"a model compiled for {text_of(self._inputs)} is given {text_of(kinds)}",
                rule="torch",
                hint="compile it for these arguments too",
            )
        if (watch := self._watch) is not None and not watch.is_unchanged:
            self._thaw()
        tensors = [array_of(x) for x in leaves if isinstance(x, torch.Tensor)]
        state = [*self._state]
        for place, buffer in zip(self._places, self._written, strict=True):
            state[place] = array_of(buffer)
        outcome = self.executable(*state, *tensors)
        results = iter(outcome if isinstance(outcome, tuple) else (outcome,))
        whole = [tensor_of(next(results)) if x is None else x.value for x in self._outputs]
        for buffer, value in zip(self._written, results, strict=True):
            with torch.inference_mode() if buffer.is_inference() else torch.no_grad():
                buffer.copy_(tensor_of(value))
        return whole[0] if self._is_single else pytree.tree_unflatten(whole, self._out_tree)

    def _thaw(self) -> None:
        """From now on the weights are arguments, as they are at each call."""
        warnings.warn(
            "the model's weights were written to since they became constants of its program, which "
            "is compiled again with weights as arguments (freeze=False does so from the start, "
            "freeze=True keeps the weights of then)",
            WeightsChangedWarning,
            stacklevel=3,
        )
        executable = self._executable_of(self._module)
        self._state, self._places = [*map(array_of, self._tensors)], self._all_places
        self.executable, self._watch = executable, None
        self.freezing = Freezing(False, "the weights were written to after compiling")
