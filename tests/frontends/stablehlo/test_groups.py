"""Groups of devices that are written by axes of a mesh, as JAX 0.11 writes them."""

import importlib.util

import pytest

import hloom

if importlib.util.find_spec("jaxlib") is None:
    pytest.skip("jaxlib, which reads StableHLO, is not installed", allow_module_level=True)

PROGRAM = """
module attributes {{mhlo.num_partitions = 8 : i32}} {{
  sdy.mesh @m = <["x"=2, "y"=4]{ids}>
  func.func public @main(%a: tensor<2xf32>) -> tensor<{size}xf32> {{
    %0 = "stablehlo.all_gather"(%a) <{{all_gather_dim = 0 : i64,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      replica_groups = #stablehlo.replica_group_mesh_axes<mesh = {mesh}, axes = [{axes}]>,
      use_global_device_ids}}> : (tensor<2xf32>) -> tensor<{size}xf32>
    return %0 : tensor<{size}xf32>
  }}
}}
"""
INLINE = (
    '#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>,'
    ' #stablehlo.mesh_axis<name = "y", size = 4>]>'
)
SECOND = "sub_axis_info = (2)2"
FIRST = "sub_axis_info = (1)2"
SHUFFLED = ", device_ids=[5, 2, 0, 1, 7, 3, 6, 4]"
X, Y = (f'#stablehlo.axis_ref<name = "{name}">' for name in "xy")
LAST, START = (f'#stablehlo.axis_ref<name = "y", {part}>' for part in (SECOND, FIRST))


@pytest.mark.parametrize(
    ("mesh", "ids", "axes", "wanted"),
    [
        ("@m", "", Y, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("@m", "", X, [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("@m", "", f"{Y}, {X}", [[0, 4, 1, 5, 2, 6, 3, 7]]),
        ("@m", SHUFFLED, X, [[5, 7], [2, 3], [0, 6], [1, 4]]),
        ("@m", "", LAST, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("@m", "", f"{X}, {START}", [[0, 2, 4, 6], [1, 3, 5, 7]]),
        (INLINE, "", Y, [[0, 1, 2, 3], [4, 5, 6, 7]]),
    ],
)
def test_groups_by_axes(mesh, ids, axes, wanted):
    text = PROGRAM.format(mesh=mesh, ids=ids, axes=axes, size=2 * len(wanted[0]))
    (gather,) = (i for i in hloom.parse(text).entry if i.opcode == "all-gather")
    assert [list(g) for g in gather.attrs.replica_groups.groups] == wanted
