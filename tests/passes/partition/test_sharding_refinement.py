"""Values of uneven sizes that moved: cut as the partitioner cuts where propagation says nothing."""

import pytest

import hloom
from hloom.analysis.communication import communications
from hloom.base.faults import CompilerFaultError
from hloom.passes.partition.sharding_refinement import FEW_INSTRUCTIONS
from hloom.passes.partition.whole_program import partitioned
from hloom.passes.pipeline import PipelineOptions
from hloom.passes.sharding.shardy_importer import ShardyImporter
from tests.passes.partition.test_partitioner import cut_and_compared
from tests.passes.partition.test_select_and_scatter import ONE, program


def scan_of(rows: int, columns: int) -> str:
    """Products of all rows up to each, as `jax.lax.associative_scan` writes them."""
    lines = [f"  x = f32[{rows},{columns}] parameter(0), sharding={{devices=[4,2]<=[8]}}"]
    count = iter(range(1000))

    def line(n: int, what: str) -> str:
        name = f"v{next(count)}"
        lines.append(f"  {name} = f32[{n},{columns}] {what}")
        return name

    def sliced(x: str, first: int, last: int, step: int = 1) -> str:
        n = -(-(last - first) // step)
        return line(n, f"slice({x}), slice={{[{first}:{last}:{step}], [0:{columns}]}}")

    def between(x: str, n: int, low: int, high: int) -> str:
        zero = f"z{next(count)}"
        lines.append(f"  {zero} = f32[] constant(0)")
        return line(n, f"pad({x}, {zero}), padding={low}_{high}_1x0_0")

    def scan(x: str, n: int) -> str:
        if n == 1:
            return x
        a, b = sliced(x, 0, n - 1, 2), sliced(x, 1, n, 2)
        odd = scan(line(n // 2, f"multiply({a}, {b})"), n // 2)
        first, even = sliced(x, 0, 1), sliced(x, 0, 1)
        if n > 2:
            p, q = sliced(odd, 0, n // 2 - 1), sliced(x, 2, n, 2)
            y = line(n // 2 - 1, f"multiply({p}, {q})")
            even = line(n // 2, f"concatenate({first}, {y}), dimensions={{0}}")
        return line(n, f"add({between(even, n, 0, 1)}, {between(odd, n, 1, 0)})")

    scan("x", rows)
    lines[-1] = lines[-1].replace("  v", "  ROOT v", 1)
    return "ENTRY main {\n" + "\n".join(lines) + "\n}"


def received(text: str, *left_out: str) -> float:
    head = "HloModule m, num_partitions=8, allow_spmd_sharding_propagation_to_output={true}\n"
    module = hloom.parse(head + text)
    module.use_spmd_partitioning = True
    cut = partitioned(module, None, PipelineOptions(frozenset(left_out)).runs)
    return sum([r.total_bytes for r in communications(cut)])


@pytest.mark.parametrize(("rows", "columns"), [(32, 40), (64, 8)])
def test_an_associative_scan_stays_in_parts(rows: int, columns: int) -> None:
    text = scan_of(rows, columns)
    cut_and_compared(text, 8)
    assert received(text) < 0.7 * received(text, "sharding-refinement")


def longer(text: str, rows: int, columns: int, count: int) -> str:
    """A program with many more instructions of its result, which move nothing."""
    shape = f"f32[{rows},{columns}]"
    body, last = text.rsplit("  ROOT v", 1)
    name = "v" + last.split(" ", 1)[0]
    lines = [f"{body}  v{last.rstrip('}').rstrip()}"]
    lines += [f"  w{k} = {shape} add({name if k == 0 else f'w{k - 1}'}, x)" for k in range(count)]
    return "\n".join(lines).replace(f"  w{count - 1} ", f"  ROOT w{count - 1} ") + "\n}"


@pytest.mark.parametrize(("columns", "is_tried"), [(8, False), (1000, True)])
def test_a_long_program_is_partitioned_again_for_many_bytes_alone(
    columns: int, is_tried: bool
) -> None:
    text = longer(scan_of(64, columns), 64, columns, FEW_INSTRUCTIONS)
    assert (received(text) < received(text, "sharding-refinement")) == is_tried


def test_a_gradient_of_pooling_is_sent_what_its_windows_look_at() -> None:
    """Tiles of 9 rows begin with a window and between two by turns: 2 rows are read before and 2
    behind, or 1 and 1; a window too many would read a third."""
    cut = partitioned(program("size=3x3 stride=2x2", (33, 17), ONE, "GE"))
    row = 17 * 3 * 4
    sent = [r.bytes for r in communications(cut) if r.instruction.shape.dims[1:] == (17, 3)]
    assert sent == [2 * row, 2 * row]


REGION = """HloModule m, num_partitions=4,
  frontend_attributes={xla.sdy.meshes={m = #sdy.mesh<["x"=4]>}}
local {
  y = f32[2,16] parameter(0)
  ROOT z = f32[2,16] collective-permute(y), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
}
ENTRY main {
  x = f32[8,16] parameter(0)
  i = f32[2,16] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape",
    custom_call_has_side_effect=true, frontend_attributes={
      xla.sdy.in_shardings="#sdy.sharding_per_value<[<@m, [{\\"x\\"}, {}]>]>",
      xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\"}>"}
  c = f32[2,16] call(i), to_apply=local
  ROOT o = f32[8,16] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape",
    custom_call_has_side_effect=true, frontend_attributes={
      xla.sdy.out_shardings="#sdy.sharding_per_value<[<@m, [{\\"x\\"}, {}]>]>",
      xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\"}>"}
}"""  # noqa: E501  a computation is a few words


def test_a_region_is_partitioned_where_nothing_else_says_a_sharding() -> None:
    module = hloom.parse(REGION)
    module.use_spmd_partitioning = True
    opcodes = [i.opcode for i in partitioned(module).instructions()]
    assert "collective-permute" in opcodes
    assert "custom-call" not in opcodes


def test_a_fault_of_the_importer_is_one_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failed(*_: object, **__: object) -> None:
        raise IndexError("planted")

    module = hloom.parse(REGION)
    module.use_spmd_partitioning = True
    monkeypatch.setattr(ShardyImporter, "run", failed)
    with pytest.raises(CompilerFaultError, match="cannot partition m: pass shardy-importer"):
        partitioned(module, [])
