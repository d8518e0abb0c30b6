"""How the elements of a kernel are walked."""

from hloom.codegen.walk import whole_rows
from hloom.ir.text import parse_module


def test_indices_put_together_are_no_operations_of_a_tile() -> None:
    """Tiles of short rows are whole rows unless the body has many operations; what only joins the
    indices of gathers is none."""
    x, y = "f32[5,9,9] parameter(0)", "s32[14] parameter(1)"
    text = f"HloModule m\nENTRY e {{\n  x = {x}\n  y = {y}\n"
    text += "  a = s32[14,14,1] broadcast(y), dimensions={0}\n"
    text += "  b = s32[14,14,1] broadcast(y), dimensions={1}\n"
    joined = "s32[14,14,2] concatenate(a, b), dimensions={2}"
    text += "".join(f"  i{k} = {joined}\n" for k in range(6))
    form = "offset_dims={0}, collapsed_slice_dims={1,2}, start_index_map={1,2}"
    form += ", index_vector_dim=2, slice_sizes={5,1,1}"
    text += "".join(f"  g{k} = f32[5,14,14] gather(x, i{k}), {form}\n" for k in range(6))
    text += "  sum1 = f32[5,14,14] add(g0, g1)\n"
    text += "".join(f"  sum{k} = f32[5,14,14] add(sum{k - 1}, g{k})\n" for k in range(2, 6))
    body = parse_module(text.replace("  sum5", "  ROOT sum5") + "}").entry.instructions
    assert whole_rows(body, 1, 8, (14, 14), 8) == 56
