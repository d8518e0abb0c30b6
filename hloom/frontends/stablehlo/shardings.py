# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Shardings: those of HLO as text (`mhlo.sharding`), and those of Shardy by names of mesh axes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import ParseError
from hloom.frontends.stablehlo.attributes import plain_ints, word
from hloom.frontends.stablehlo.bindings import is_stablehlo, sdy, stablehlo
from hloom.ir.text.cursor import Cursor
from hloom.ir.values.frontend import FrontendAttributes
from hloom.ir.values.mesh import AxisRef, Mesh
from hloom.ir.values.sharding import REPLICATED, Sharding, parse_sharding
from hloom.ir.values.sharding_named import DimensionSharding, NamedSharding
from hloom.ir.values.sharding_sdy import SHARDING, SdySharding, priorities_of

if TYPE_CHECKING:
    from hloom.frontends.stablehlo.program import ImportedProgram
    from hloom.frontends.stablehlo.scope import Scope
    from hloom.ir.computation import Computation
    from hloom.ir.instruction import Instruction


_COMMENT = re.compile(r"/\*.*?\*/")
"""What long texts have before every fifth sharding."""


def keep_priorities(i: Instruction, attribute: Any) -> None:
    """Let an instruction carry the text of a sharding of Shardy that has priorities, which those of
    HLO have not: `sharding-propagation` reads them there."""
    text = str(attribute)
    if any(map(any, priorities_of(text))):
        old = i.frontend_attributes or FrontendAttributes()
        i.frontend_attributes = old.updated({SHARDING: text})


class Shardings:
    """The meshes of one program, and each sharding that was read."""

    def __init__(self, program: ImportedProgram) -> None:
        self.program = program
        self.meshes: dict[str, Mesh] = {}
        self._of_text: dict[str, Sharding] = {}
        self._of_attribute: dict[Any, Sharding] = {}

    # -- meshes

    def add_mesh(self, op: Any) -> None:
        """Remember `sdy.mesh @name = <["x"=2, "y"=4]>`."""
        self.meshes[word(op.attributes["sym_name"])] = mesh_of(op.attributes["mesh"])

    def mesh(self, reference: Any) -> Mesh:
        """The mesh that an attribute names or is."""
        if sdy.MeshAttr.isinstance(reference) or is_stablehlo(reference, "MeshAttr"):
            return mesh_of(reference)
        name = str(reference).removeprefix("@").strip('"')
        if name not in self.meshes:
            raise ParseError(f"there is no mesh @{name}", rule="mesh")
        return self.meshes[name]

    # -- shardings

    def of_text(self, text: str, scope: Scope | None = None) -> Sharding:
        """The sharding that HLO text says."""
        sharding = self._of_text.get(text)
        if sharding is None:
            cursor = Cursor(_COMMENT.sub("", text))
            try:
                sharding = parse_sharding(cursor)
            except ParseError as error:
                if scope is None:
                    raise
                raise scope.error(f"sharding {text!r}: {error.message}", rule="sharding") from None
            self._of_text[text] = sharding
        return sharding

    def of_tensor(self, attribute: Any) -> Sharding:
        """The sharding of one value, `#sdy.sharding<@mesh, [{"x"}, {?}]>`."""
        sharding = self._of_attribute.get(attribute)
        if sharding is None:
            sharding = self._of_attribute[attribute] = self._new_sharding(
                sdy.TensorShardingAttr(attribute)
            )
        return sharding

    def of_values(self, attribute: Any, count: int) -> Sharding:
        """The sharding of an operation's results: of the only one, or of a tuple."""
        if not sdy.TensorShardingPerValueAttr.isinstance(attribute):
            return self.of_tensor(attribute)
        parts = sdy.TensorShardingPerValueAttr(attribute).shardings
        shardings = [self.of_tensor(part) for part in parts]
        return shardings[0] if count == 1 and len(shardings) == 1 else Sharding.tuple_of(*shardings)

    def each(self, attribute: Any) -> list[NamedSharding]:
        """One sharding for each value, with its mesh when it is replicated too."""
        parts = sdy.TensorShardingPerValueAttr(attribute).shardings
        return [self.named(sdy.TensorShardingAttr(p)) for p in parts]

    def _new_sharding(self, attribute: Any) -> Sharding:
        return SdySharding(self.named(attribute)).sharding

    def named(self, attribute: Any) -> NamedSharding:
        """What a sharding of Shardy says, mesh and all."""
        mesh = self.mesh(attribute.mesh_or_ref)
        dims = tuple(
            DimensionSharding(tuple(axis_of(a, mesh) for a in d.axes), d.is_closed)
            for d in map(sdy.DimensionShardingAttr, attribute.dimension_shardings)
        )
        replicated, unreduced = (
            tuple(axis_of(a, mesh) for a in axes)
            for axes in (attribute.replicated_axes, attribute.unreduced_axes)
        )
        return NamedSharding(mesh, dims, replicated, unreduced)

    # -- of functions

    def of_arguments(self, op: Any) -> dict[int, Sharding]:
        """The shardings of a function's arguments, where they have one."""
        if "arg_attrs" not in op.attributes:
            return {}
        return self._of_each(op.attributes["arg_attrs"])

    def of_results(self, op: Any, computation: Computation) -> None:
        """Give the root the shardings of the results."""
        if "res_attrs" not in op.attributes:
            return
        stated = self._of_each(op.attributes["res_attrs"])
        if not stated:
            return
        root = computation.root
        leaves = len(root.shape.elements) if root.shape.is_tuple else 1
        parts = [stated.get(k, REPLICATED) for k in range(leaves)]
        self.program.module.spmd_output_sharding = (
            Sharding.tuple_of(*parts) if root.shape.is_tuple else parts[0]
        )
        if root.opcode == "tuple":
            root.sharding = Sharding.tuple_of(*parts)
        elif root.sharding is None and root.opcode != "parameter":
            root.sharding = parts[0]

    def _of_each(self, attributes: Any) -> dict[int, Sharding]:
        shardings: dict[int, Sharding] = {}
        for k, fields in enumerate(attributes):
            if "mhlo.sharding" in fields:
                shardings[k] = self.of_text(word(fields["mhlo.sharding"]))
            elif "sdy.sharding" in fields:
                shardings[k] = self.of_tensor(fields["sdy.sharding"])
        return shardings


def mesh_of(attribute: Any) -> Mesh:
    """`#sdy.mesh<["x"=2, "y"=4], device_ids=[...]>`."""
    dialect: Any = stablehlo if is_stablehlo(attribute, "MeshAttr") else sdy
    attribute_ = dialect.MeshAttr(attribute)
    axes = tuple((a.name, a.size) for a in map(dialect.MeshAxisAttr, attribute_.axes))
    ids = plain_ints(attribute_.device_ids) if attribute_.device_ids is not None else ()
    return Mesh(axes, ids or None)


def axis_of(attribute: Any, mesh: Mesh) -> AxisRef:
    """`"x"`, or the part `"x":(1)2` of it."""
    dialect: Any = stablehlo if is_stablehlo(attribute, "AxisRefAttr") else sdy
    attribute_ = dialect.AxisRefAttr(attribute)
    index = next(k for k, (name, _) in enumerate(mesh.axes) if name == attribute_.name)
    if attribute_.sub_axis_info is None:
        return AxisRef(index)
    part = dialect.SubAxisInfoAttr(attribute_.sub_axis_info)
    return AxisRef(index, part.pre_size, part.size)
