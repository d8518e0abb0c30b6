"""What the product of an instruction packs at every call: `weight-panels` lays it out once."""

from __future__ import annotations

from hloom.analysis.panels import Matrix, panel_width
from hloom.codegen.gemm_tiling import GemmTiling, result_lanes
from hloom.codegen.tile import Body
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.targets.cpu.lower.families import family_of


def packed_matrix(device: Device, i: Instruction) -> Matrix | None:
    """The array whose elements are the second operand of a product as its kernel packs them.

    Few rows are multiplied without packing, but panels are read faster than rows of a matrix
    that are far apart (4 rows by 2048 x 2048: 0.43 of the time); not where elements would be
    converted on the way, nor where a vector is wider than a panel or cuts it.
    """
    family, p = family_of(Body.of(i), device)
    if family.name != "product" or p.batch != 1 or p.of.is_complex:
        return None
    x, group = p.b_array, p.packing.group
    if (
        x is None
        or p.b_panels is not None
        or x.shape.dtype is not p.b_type
        or p.depth % p.packing.step
    ):
        return None
    if group > 1 and GemmTiling.of(p, device).form != "packed":
        return None
    matrix = Matrix(x, p.b_dims, group)
    width, lanes = panel_width(matrix.columns, group), result_lanes(p, device)
    return None if width is None or width % lanes else matrix
