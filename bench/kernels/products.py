"""`python -m bench.kernels.products [words]`: dots and convolutions against XLA:CPU.

Every case is one instruction (and what its dtype needs). The two take turns; the table shows the
median and the least of all rounds in microseconds, their ratios (below 1: hloom is faster) and the
compile times. Cases whose name contains one of the words are run; without words all are.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import hloom
from hloom.compiler import compile_module


def dot_text(
    m: int, k: int, n: int, of: str = "f32", left: bool = False, right: bool = False, b: int = 0
) -> str:
    """A module with one dot; `left` and `right` say whether an operand lies transposed."""
    head = f"{b}," if b else ""
    batch = "lhs_batch_dims={0}, rhs_batch_dims={0}, " if b else ""
    lhs = f"{of}[{head}{k},{m}]" if left else f"{of}[{head}{m},{k}]"
    rhs = f"{of}[{head}{n},{k}]" if right else f"{of}[{head}{k},{n}]"
    first, second = (0 if left else 1) + bool(b), (1 if right else 0) + bool(b)
    return f"""HloModule dot
ENTRY %main {{ %a = {lhs} parameter(0)
 %b = {rhs} parameter(1)
 ROOT %d = {of}[{head}{m},{n}] dot(%a, %b), {batch}lhs_contracting_dims={{{first}}}, \
rhs_contracting_dims={{{second}}} }}
"""


def convolution_text(
    form: str, n: int, size: int, ci: int, co: int, window: int, stride: int, groups: int, of: str
) -> str:
    """A module with one convolution of a layer: forward, wgrad or dgrad, padded to keep size."""
    out = -(-size // stride)
    total = max((out - 1) * stride + window - size, 0)
    low, high = total // 2, total - total // 2
    x, y = f"{of}[{n},{size},{size},{ci}]", f"{of}[{n},{out},{out},{co}]"
    w = f"{of}[{window},{window},{ci // groups},{co}]"
    group = f", feature_group_count={groups}" if groups > 1 else ""
    if form == "forward":
        return f"""HloModule conv
ENTRY %main {{ %x = {x} parameter(0)
 %w = {w} parameter(1)
 ROOT %y = {y} convolution(%x, %w), window={{size={window}x{window} stride={stride}x{stride} \
pad={low}_{high}x{low}_{high}}}, dim_labels=b01f_01io->b01f{group} }}
"""
    if form == "wgrad":
        # high padding so that the result has `window` places
        top = (window - 1) + (out - 1) * stride + 1 - size - low
        batch = f", batch_group_count={groups}" if groups > 1 else ""
        return f"""HloModule conv
ENTRY %main {{ %x = {x} parameter(0)
 %g = {y} parameter(1)
 ROOT %w = {w} convolution(%x, %g), window={{size={out}x{out} pad={low}_{top}x{low}_{top} \
rhs_dilate={stride}x{stride}}}, dim_labels=f01b_i01o->01bf{batch} }}
"""
    first = window - 1 - low
    last = size + window - 1 - ((out - 1) * stride + 1) - first
    turned = f"{of}[{window},{window},{co // groups},{ci}]"
    labels = "b01f_01oi->b01f"
    if groups > 1:
        w, labels = turned, "b01f_01io->b01f"
    return f"""HloModule conv
ENTRY %main {{ %g = {y} parameter(0)
 %w = {w} parameter(1)
 %r = {w} reverse(%w), dimensions={{0,1}}
 ROOT %x = {x} convolution(%g, %r), window={{size={window}x{window} \
pad={first}_{last}x{first}_{last} lhs_dilate={stride}x{stride}}}, dim_labels={labels}{group} }}
"""


# Layers: name, size of the image, features in and out, window, stride.
RESNET = (
    ("stem", 224, 3, 64, 7, 2),
    ("c2-3x3", 56, 64, 64, 3, 1),
    ("c3-3x3", 28, 128, 128, 3, 1),
    ("c4-3x3", 14, 256, 256, 3, 1),
    ("c5-3x3", 7, 512, 512, 3, 1),
    ("c2-1x1", 56, 64, 256, 1, 1),
    ("c4-1x1s2", 28, 512, 1024, 1, 2),
)
MOBILENET = (
    ("dw112", 112, 32, 3, 1),
    ("dw56s2", 112, 96, 3, 2),
    ("dw56", 56, 144, 3, 1),
    ("dw14", 14, 384, 3, 1),
)


def cases() -> Iterator[tuple[str, Callable[[], str]]]:
    """Names of cases and their modules."""
    for n in (64, 128, 256, 512, 1024, 2048):
        yield f"gemm {n}", lambda n=n: dot_text(n, n, n)
    for m in (1, 2, 4, 8, 16, 32):
        yield f"skinny {m}", lambda m=m: dot_text(m, 4096, 4096)
        yield f"skinny-nt {m}", lambda m=m: dot_text(m, 4096, 4096, right=True)
    yield "heads 12x128x64x128", lambda: dot_text(128, 64, 128, b=12)
    yield "heads-nt 12x128x64x128", lambda: dot_text(128, 64, 128, right=True, b=12)
    yield "gemm-nt 512", lambda: dot_text(512, 512, 512, right=True)
    yield "gemm-tn 512", lambda: dot_text(512, 512, 512, left=True)
    yield "gemm-tt 512", lambda: dot_text(512, 512, 512, left=True, right=True)
    yield "gemm-bf16 512", lambda: dot_text(512, 512, 512, "bf16")
    yield "gemm-bf16 1024", lambda: dot_text(1024, 1024, 1024, "bf16")
    yield "gemm-f64 512", lambda: dot_text(512, 512, 512, "f64")
    yield "gemm-s32 256", lambda: dot_text(256, 256, 256, "s32")
    yield "gemm-c64 256", lambda: dot_text(256, 256, 256, "c64")
    yield "deep 64x4096x64", lambda: dot_text(64, 4096, 64)
    yield "dense 128x784x10", lambda: dot_text(128, 784, 10)
    # Gradients of 1x1 convolutions' weights: a long K, few results.
    for k, m, n in ((25088, 144, 24), (100352, 16, 96), (100352, 32, 16), (6272, 192, 32)):
        yield f"weights {m}x{n} over {k}", lambda k=k, m=m, n=n: dot_text(m, k, n, left=True)
    for images in (1, 8, 32):
        for name, size, ci, co, window, stride in RESNET:
            for form in ("forward", "wgrad", "dgrad"):
                arguments = (form, images, size, ci, co, window, stride, 1, "f32")
                yield f"conv {name} n{images} {form}", lambda a=arguments: convolution_text(*a)
        for name, size, c, window, stride in MOBILENET:
            for form in ("forward", "wgrad", "dgrad"):
                arguments = (form, images, size, c, c, window, stride, c, "f32")
                yield f"depthwise {name} n{images} {form}", lambda a=arguments: convolution_text(*a)


def xla_executable(text: str) -> Any:
    """XLA's executable for the text of a module, on one device."""
    import jax
    from jaxlib import _hlo, _jax, xla_client  # pyright: ignore[reportAttributeAccessIssue]

    module = _hlo.hlo_module_from_text(text)
    computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    stable = _jax.mlir.xla_computation_to_mlir_module(computation)
    device = jax.devices("cpu")[0]
    devices = _jax.DeviceList((device,))
    return device.client.compile_and_load(stable, devices, xla_client.CompileOptions())


def measured(text: str, rounds: int, budget_s: float) -> dict[str, float]:
    """Times of one case, in microseconds; compile times in milliseconds."""
    import jax

    jax.config.update("jax_enable_x64", True)
    module = hloom.parse(text)
    arguments = [leaf.array for a in hloom.random_arguments(module) for leaf in a.leaves()]
    start = time.perf_counter()
    ours = compile_module(module)
    middle = time.perf_counter()
    theirs = xla_executable(text)
    end = time.perf_counter()
    device = jax.devices("cpu")[0]
    placed = [jax.device_put(x, device) for x in arguments]

    def run_xla() -> Any:
        out = theirs.execute_sharded(placed).disassemble_into_single_device_arrays()
        for group in out:
            for x in group:
                x.block_until_ready()
        return out[0][0]

    found, wanted = np.asarray(ours(*arguments)), np.asarray(run_xla())
    taken: dict[str, list[float]] = {"hloom": [], "xla": []}
    begin = time.perf_counter()
    while len(taken["xla"]) < rounds:
        for name, run in (("hloom", lambda: ours(*arguments)), ("xla", run_xla)):
            t = time.perf_counter()
            run()
            taken[name].append(1e6 * (time.perf_counter() - t))
        if time.perf_counter() - begin > budget_s and len(taken["xla"]) >= 3:
            break
    wide = np.result_type(found.dtype, np.float32) if found.dtype.kind == "V" else found.dtype
    scale = float(np.abs(wanted.astype(wide)).max()) or 1.0
    error = float(np.abs(found.astype(wide) - wanted.astype(wide)).max()) / scale
    return {
        "median": statistics.median(taken["hloom"]),
        "xla median": statistics.median(taken["xla"]),
        "least": min(taken["hloom"]),
        "xla least": min(taken["xla"]),
        "compile": 1e3 * (middle - start),
        "xla compile": 1e3 * (end - middle),
        "error": error,
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="run cases whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--budget", type=float, default=2.0, help="seconds for one case")
    options = parser.parse_args()
    print(
        f"{'case':36s} {'hloom us':>10s} {'xla us':>10s} {'ratio':>6s} {'of min':>6s} "
        f"{'compile ms':>11s} {'xla':>6s}  error"
    )
    for name, text in cases():
        if options.words and not any(word in name for word in options.words):
            continue
        try:
            r = measured(text(), options.rounds, options.budget)
        except Exception as error:  # a case that fails must not hide the others
            print(f"{name:36s} {type(error).__name__}: {str(error)[:120]}", flush=True)
            continue
        print(
            f"{name:36s} {r['median']:10.1f} {r['xla median']:10.1f} "
            f"{r['median'] / r['xla median']:6.2f} {r['least'] / r['xla least']:6.2f} "
            f"{r['compile']:11.1f} {r['xla compile']:6.0f}  {r['error']:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
