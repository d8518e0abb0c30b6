"""Programs that are code for one device all the way: each device runs it on its own arrays.

What `jit(shard_map(f))` and `pmap` hand over is a program of whole arrays with manual computations
in it. Where every array goes from device to device as it stands, into one of them, out of one,
through operations on elements, nothing is ever whole: the program of one device is the bodies, one
after another, on shards. It has their collectives, and nothing is joined or cut.
Where an array would have to be cut otherwise, the program is run on whole arrays (`sharded.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hloom.api import (
    Computation,
    Instruction,
    Module,
    Shape,
    ShardSpec,
    copy_computation,
    module_of_bytes,
    tuple_shape,
)
from hloom.plugin.donation import pair_donors
from hloom.plugin.manual import MANUAL_TARGET, ManualComputation

_NUMBER = re.compile(r"\bregion = (\d+) : i64")


@dataclass(frozen=True)
class Cut:
    """How an array stands on the devices; without offsets, each has the whole."""

    dims: tuple[int, ...] = ()
    offsets: tuple[tuple[int, ...], ...] = ()

    @staticmethod
    def of(shard_spec: ShardSpec, of_device: Sequence[int]) -> Cut:
        """`shard_spec` is by position in the mesh; `of_device` says at which one a device is."""
        if not shard_spec.offsets:
            return Cut()
        return Cut(shard_spec.dims, tuple([shard_spec.offsets[position] for position in of_device]))


class NeedsWhole(Exception):
    """Why a program is run on whole arrays."""


def per_device(
    module: Module,
    manual_computations: Sequence[ManualComputation],
    arguments: Sequence[ShardSpec],
    results: Sequence[ShardSpec],
    partitions: int,
) -> Module:
    """The program of one device of a program of whole arrays; `NeedsWhole` where it has none."""
    if not manual_computations:
        raise NeedsWhole("it has no code for one device")
    bodies = [module_of_bytes(computation.code) for computation in manual_computations]
    if any(_region_number(i) is not None for body in bodies for i in body.instructions()):
        raise NeedsWhole("a manual computation has manual computations inside")
    everywhere = range(partitions)
    translation = _Translation(
        manual_computations, bodies, [Cut.of(s, everywhere) for s in arguments]
    )
    local = translation.module(module, [Cut.of(s, everywhere) for s in results])
    local.num_partitions = partitions
    _copy_config(module, local)
    return local


class _Translation:
    """From instructions on whole arrays to those of one device."""

    def __init__(
        self,
        manual_computations: Sequence[ManualComputation],
        bodies: Sequence[Module],
        arguments: Sequence[Cut],
    ) -> None:
        self.manual_computations = manual_computations
        self.bodies = bodies
        self.arguments = arguments
        self.local_module = Module()
        self.entry = self.local_module.add_computation("main", entry=True)
        self.callees: dict[int, Computation] = {}
        self.local: dict[Instruction, Instruction] = {}
        self.cuts: dict[Instruction, Cut] = {}
        self.elements: dict[Instruction, list[tuple[Instruction, Cut]]] = {}
        """Of a manual computation with several results."""
        self.filled: dict[Instruction, Instruction] = {}
        """Arrays of one number: they stand any way that is wanted."""

    def module(self, whole: Module, results: Sequence[Cut]) -> Module:
        root = whole.entry.root
        for i in whole.entry.in_order():
            if i is root and i.opcode == "tuple":
                break
            self.translate(i)
        if root.opcode != "tuple" and not root.shape.is_array:
            return self.finished(self.gathered(root, results))
        values = list(root.operands) if root.opcode == "tuple" else [root]
        if len(values) != len(results) or any(not x.shape.is_array for x in values):
            raise NeedsWhole("its results are not arrays")
        local = [self.standing(x, cut) for x, cut in zip(values, results)]
        return self.finished(
            self.entry.add("tuple", *local) if root.opcode == "tuple" else local[0]
        )

    def finished(self, root: Instruction) -> Module:
        self.entry.root = root
        shape = self.entry.program_shape
        self.local_module.entry_layout = replace(shape, parameter_names=())
        return self.local_module

    def gathered(self, root: Instruction, results: Sequence[Cut]) -> Instruction:
        """The results of a manual computation that the program returns as they are."""
        elements = self.elements.get(root)
        if elements is None or [cut for _, cut in elements] != list(results):
            raise NeedsWhole("its results stand otherwise than those of the manual computation")
        return self.entry.add("tuple", *[element for element, _ in elements])

    def translate(self, i: Instruction) -> None:
        number = _region_number(i)
        if number is not None:
            self.call(i, number)
        elif i.opcode == "get-tuple-element" and i.operands[0] in self.elements:
            self.local[i], self.cuts[i] = self.elements[i.operands[0]][i.attrs.index]
        elif i.opcode == "parameter" and i.shape.is_array:
            cut = self.arguments[i.attrs.number]
            self.append(i, (), cut)
        elif i.opcode == "constant":
            self.append(i, (), Cut())
        elif i.opcode == "broadcast" and not i.operands[0].shape.dims:
            self.filled[i] = self.local[i.operands[0]]
        elif i.op.family == "elementwise" and all(
            x.shape.dims in ((), i.shape.dims) for x in i.operands
        ):
            self.elementwise(i)
        else:
            raise NeedsWhole(f"%{i.name} ({i.opcode}) is outside of a manual computation")

    def elementwise(self, i: Instruction) -> None:
        """Where all operands stand the same way, so does the result."""
        fixed = [x for x in i.operands if x not in self.filled and x.shape.dims]
        cut = self.cuts[fixed[0]] if fixed else Cut()
        scalars = [x for x in i.operands if not x.shape.dims]
        local = {x: self.local[x] for x in scalars}
        local.update({x: self.standing(x, cut) for x in i.operands if x not in local})
        self.append(i, [local[x] for x in i.operands], cut)

    def standing(self, x: Instruction, cut: Cut) -> Instruction:
        """The value of one device where a value stands so."""
        if x in self.filled:
            shape = _local_shape(x.shape, cut)
            return self.entry.add("broadcast", self.filled[x], shape=shape, dimensions=())
        if self.cuts[x] != cut:
            raise NeedsWhole(f"%{x.name} would have to be cut otherwise")
        return self.local[x]

    def append(self, i: Instruction, operands: Sequence[Instruction], cut: Cut) -> None:
        shape = _local_shape(i.shape, cut)
        local = self.entry.append(i.opcode, i.attrs, tuple(operands), shape, i.name, ())
        local.copy_annotations(i)
        self.local[i], self.cuts[i] = local, cut
        self.forget_places(local)

    def call(self, i: Instruction, number: int) -> None:
        computation = self.manual_computations[number]
        into = [Cut.of(s, computation.of_device) for s in computation.arguments]
        out = [Cut.of(s, computation.of_device) for s in computation.results]
        if len(i.operands) != len(into):
            raise NeedsWhole(f"%{i.name} is given tokens")
        operands = [self.standing(x, cut) for x, cut in zip(i.operands, into)]
        if number not in self.callees:
            self.callees[number] = self.copied(number)
        callee = self.callees[number]
        shape = callee.root.shape
        result = self.entry.add("call", *operands, shape=shape, called=(callee,))
        if not callee.root.shape.is_tuple:
            self.local[i], self.cuts[i] = result, out[0]
            return
        self.elements[i] = [
            (self.entry.add("get-tuple-element", result, index=k), cut) for k, cut in enumerate(out)
        ]

    def copied(self, number: int) -> Computation:
        """The code of a manual computation, in the program."""
        body = self.bodies[number]
        copies: dict[Computation, Computation] = {}
        for c in body.computations_in_order():
            name = f"device_{number}" if c is body.entry else c.name
            copies[c], _ = copy_computation(c, self.local_module, name, copies)
            for inside in copies[c].instructions:
                self.forget_places(inside)
        return copies[body.entry]

    def forget_places(self, i: Instruction) -> None:
        """Shardings and stack frames of other modules mean nothing here."""
        i.sharding = None
        if i.metadata is not None:
            i.metadata = replace(i.metadata, stack_frame_id=0)


def _region_number(i: Instruction) -> int | None:
    """Which manual computation a custom call calls; None: it is something else."""
    if i.opcode != "custom-call" or i.attrs.custom_call_target != MANUAL_TARGET:
        return None
    assert i.backend_config is not None
    match = _NUMBER.search(i.backend_config.raw)
    assert match is not None
    return int(match[1])


def _is_even(i: Instruction) -> bool:
    """Whether its operands have its sizes, but for single numbers."""
    return all(x.shape.dims in ((), i.shape.dims) for x in i.operands)


def _local_shape(whole: Shape, cut: Cut) -> Shape:
    """The shape of what one device has, in the layout of the whole."""
    return whole.with_dims(cut.dims) if cut.offsets else whole


def _copy_config(whole: Module, local: Module) -> None:
    """What callers are told of the program, for arrays of one device."""
    local.name = whole.name
    local.frontend_attributes = whole.frontend_attributes
    if whole.entry_layout is not None:
        local.entry_layout = _local_layout(whole, local)
    alias = whole.input_output_alias
    if alias is not None:
        kept_entries = [e for e in alias.entries if _is_same_size(local, e)]
        local.input_output_alias = replace(alias, entries=tuple(kept_entries))
    local.buffer_donors = whole.buffer_donors
    pair_donors(local)


def _local_layout(whole: Module, local: Module) -> Any:
    """The shapes that callers see: local ones, in the layouts of the whole."""
    layout, own = whole.entry_layout, local.entry.program_shape
    assert layout is not None
    parameters = [_laid_out(a, b) for a, b in zip(own.parameters, layout.parameters, strict=True)]
    return replace(
        layout, parameters=tuple(parameters), result=_laid_out(own.result, layout.result)
    )


def _laid_out(own: Shape, stated: Shape) -> Shape:
    if own.is_tuple:
        pairs = zip(own.elements, stated.elements, strict=True)
        return tuple_shape([_laid_out(a, b) for a, b in pairs])
    return own.with_layout(stated.layout) if own.is_array else own


def _is_same_size(local: Module, entry: Any) -> bool:
    """Whether a result may still stand in a parameter's memory."""
    shape = local.entry.root.shape
    for k in entry.output_shape_index:
        shape = shape.elements[k]
    return shape.dims == local.entry.parameters[entry.parameter_number].shape.dims
