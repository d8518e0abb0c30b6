"""What a step of a kernel is expected to take, counted from the kernel."""

from __future__ import annotations

import pytest

from hloom import api
from hloom.codegen.kernel_cost import step_ns
from hloom.device.known import device_named
from hloom.kernel.parse import parse_kernel

DEVICE = api.host_device()


def ns(body: str, size: int = 1 << 10) -> float:
    """A step of a kernel with buffers of few elements."""
    return step_ns(
        parse_kernel(
            f"kernel @k(%x: buffer<f32>[{size}] in, %y: buffer<f32>[{size}] out) grid(%0: 1) {{\n"
            f"  %zero = constant 0 : s64[]\n{body}\n}}"
        ),
        DEVICE,
    )


COPY = """  %a = load %x[%zero] strides(1) : f32[256]
  store %y[%zero], %a strides(1)"""


def test_more_operations_take_longer() -> None:
    one = "  %a = load %x[%zero] strides(1) : f32[256]\n"
    sums = "".join(f"  %b{k} = add %{f'b{k - 1}' if k else 'a'}, %a : f32[256]\n" for k in range(9))
    exponential = "  %b8 = exponential %a : f32[256]\n"
    stored = "  store %y[%zero], %b8 strides(1)"
    assert ns(COPY) < ns(one + sums + stored)
    assert ns(COPY) < ns(one + exponential + stored)


def test_elements_one_by_one_take_longer_than_rows() -> None:
    apart = COPY.replace(
        "load %x[%zero] strides(1) : f32[256]", "load %x[%zero] strides(7) : f32[256]"
    )
    near = COPY.replace(
        "load %x[%zero] strides(1) : f32[256]", "load %x[%zero] strides(3) : f32[256]"
    )
    assert ns(COPY, 4096) < ns(near, 4096) < ns(apart, 4096)


def test_loops_count_as_often_as_they_run() -> None:
    def loop(trips: int) -> str:
        return f"""  %end = constant {trips} : s64[]
  for %k = %zero to %end step 1 {{
    %a = load %x[%k] strides(1) : f32[256]
    store %y[%k], %a strides(1)
  }}"""

    assert 15 < (ns(loop(1000)) - ns(loop(0))) / (ns(loop(60)) - ns(loop(0))) < 18


def test_a_carried_sum_waits_for_itself() -> None:
    def fold(opcode: str, more: str) -> str:
        return f"""  %end = constant 64 : s64[]
  %first = load %x[%zero] strides(1) : f32[8]
  %s = for %k = %zero to %end step 1 (%c = %first) : f32[8] {{
    %a = load %x[%k] strides(1) : f32[8]
    %b = {opcode} %{more}, %a : f32[8]
    yield %b
  }}
  store %y[%zero], %s strides(1)"""

    alone, chained = ns(fold("add", "a")), ns(fold("add", "c"))
    assert chained > 1.5 * alone
    assert ns(fold("power", "c")) > 5 * chained


def test_large_buffers_are_far_away() -> None:
    near, far = ns(COPY), ns(COPY, 1 << 28)
    assert far > near


@pytest.mark.parametrize("name", ["x86-64-v3", "neoverse-v2", "apple-m2", "sim"])
def test_other_devices(name: str) -> None:
    """Costs are those of the device, whatever is known of its caches."""
    device = device_named(name)
    kernel = parse_kernel(
        "kernel @k(%x: buffer<bf16>[64] in, %y: buffer<bf16>[64] out) grid(%0: 1) {\n"
        "  %z = constant 0 : s64[]\n  %a = load %x[%z] strides(1) : bf16[64]\n"
        "  store %y[%z], %a strides(1)\n}"
    )
    assert 0 < step_ns(kernel, device) < 1e4


def test_offsets_of_many_rounds_are_looked_at_once() -> None:
    """Each of 200 sums reads the one before twice: 2 ** 200 ways to where they begin."""
    rounds = "".join(
        f"  %o{k} = add %{f'o{k - 1}' if k else 'at'}, %{f'o{k - 1}' if k else 'at'} : s64[8]\n"
        for k in range(200)
    )
    body = (
        "  %at = iota axis(0) : s64[8]\n"
        f"{rounds}  %v = gather %x[%o199] : f32[8]\n  store %y[%zero], %v strides(1)"
    )
    assert ns(body) > 0
