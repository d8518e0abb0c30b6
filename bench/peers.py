"""Whole models against other compilers and runtimes: `python -m bench.peers [words]`.

Each model is written once, over the few operations that it needs, and built of the same random
numbers for JAX (hloom and XLA:CPU) and for PyTorch (eager, torch.compile, and exported to ONNX
Runtime and OpenVINO). All compute in f32 on as many threads, take turns in one process, and have to
agree. The table shows medians, and hloom's as a part of the best other's; the losing rows first.
What is not installed is left out: `pip install 'hloom[bench-peers]'`. Exported models hold their
weights as constants, which others may pack before they are timed, and so does hloom; beside it
stands hloom with weights as arguments, as XLA:CPU has them, which it packs at every call.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bench.peer_models import MODELS, JaxOperations, Model, Weights, torch_module
from hloom.runtime.processors import granted_threads
from hloom.types.literal import Literal

Run = Callable[[], np.ndarray]
TOLERANCE = 2e-3
"""Between two of them, of the largest number."""
ROUNDS, SECONDS = 20, 12.0


def jax_runs(model: Model, weights: Weights, x: np.ndarray) -> Iterator[tuple[str, Run]]:
    """hloom and XLA:CPU, given the same HLO."""
    import jax

    import hloom
    from bench.kernels.loops import xla_program
    from hloom.compiler import compile_module

    names = [*weights]
    arrays = [JaxOperations.placed(name, weights[name]) for name in names]
    given = [JaxOperations.entered(x), *arrays]

    def computed(x: Any, *values: Any) -> Any:
        return model.forward(JaxOperations(), dict(zip(names, values)), x)

    made = jax.jit(computed).lower(*given).compiler_ir("hlo")
    assert made is not None
    text = made.as_hlo_text(True)
    module = hloom.parse(text)
    constants = {k: Literal.of(np.asarray(a)) for k, a in enumerate(given) if k > 0}
    frozen = compile_module(module.with_constants(constants))
    executable = compile_module(module)
    yield "hloom", lambda: np.asarray(frozen(given[0]))
    yield "hloom, arguments", lambda: np.asarray(executable(*given))
    theirs, _ = xla_program(text, given)

    def xla() -> np.ndarray:
        results: Any = theirs()
        return np.asarray(results[0][0])

    yield "XLA:CPU", xla


def torch_runs(model: Model, weights: Weights, x: np.ndarray) -> Iterator[tuple[str, Run]]:
    """PyTorch, and what takes its models."""
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(granted_threads())
    module, given = torch_module(model, weights), torch.from_numpy(x)

    def timed(run: Callable[[Any], Any]) -> Run:
        def call() -> np.ndarray:
            with torch.inference_mode():
                return run(given).numpy()

        return call

    yield "torch eager", timed(module)
    yield "torch compile", timed(torch.compile(module))
    if find_spec("onnx") is None or find_spec("onnxscript") is None:
        return
    file = io.BytesIO()
    torch.onnx.export(module, (given,), file, dynamo=True, verbose=False)
    if find_spec("onnxruntime") is not None:
        yield "ONNX Runtime", onnx_run(file.getvalue(), x)
    if find_spec("openvino") is not None:
        yield "OpenVINO", openvino_run(file.getvalue(), x)


def onnx_run(exported: bytes, x: np.ndarray) -> Run:
    import onnxruntime  # pyright: ignore[reportMissingImports]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = granted_threads()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(exported, options, ["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda: np.asarray(session.run(None, {name: x})[0])


def openvino_run(exported: bytes, x: np.ndarray) -> Run:
    import openvino  # pyright: ignore[reportMissingImports]

    chosen = {
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": granted_threads(),
    }
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(exported, b""), "CPU", chosen)
    request = compiled.create_infer_request()

    def run() -> np.ndarray:
        request.infer([x])
        return request.get_output_tensor(0).data

    return run


def measured(model: Model) -> dict[str, float]:
    """Median seconds of each contestant; those that fail are named and left out."""
    rng = np.random.default_rng(0)
    weights, x = model.weights(rng), model.argument(rng)
    runs: dict[str, Run] = {}
    sources = [jax_runs, torch_runs] if find_spec("torch") is not None else [jax_runs]
    for source in sources:
        runs.update(source(model, weights, x))
    wanted = runs["hloom"]()
    scale = float(np.abs(wanted).max())
    for name, run in [*runs.items()]:
        run()
        worst = float(np.abs(run() - wanted).max()) / scale
        if not worst <= TOLERANCE:
            raise ValueError(f"{model.name}: {name} differs by {worst:.2g} of the largest number")
    times: dict[str, list[float]] = {name: [] for name in runs}
    begin = time.perf_counter()
    for done in range(ROUNDS):
        if done >= 5 and time.perf_counter() - begin > SECONDS:
            break
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def table(found: dict[str, dict[str, float]]) -> str:
    """Milliseconds in Markdown, losing rows first."""

    def ratio(times: dict[str, float]) -> float:
        return times["hloom"] / min(
            [s for name, s in times.items() if not name.startswith("hloom")]
        )

    names = list(dict.fromkeys(name for times in found.values() for name in times))
    lines = [f"| model | {' | '.join(names)} | to the best other |"]
    lines.append("|---|" + "--:|" * (len(names) + 1))
    for model, times in sorted(found.items(), key=lambda row: -ratio(row[1])):
        cells = [f"{times[n] * 1e3:.1f}" if n in times else "" for n in names]
        lines.append(f"| {model} | {' | '.join(cells)} | {ratio(times):.2f} |")
    mean = math.exp(statistics.fmean(math.log(ratio(times)) for times in found.values()))
    lines.append(f"| geometric mean |{' |' * len(names)} {mean:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("words", nargs="*", help="only models whose names contain one of these")
    parser.add_argument("--json", type=Path, help="write the medians here, in seconds")
    options = parser.parse_args()
    found = {}
    for model in MODELS:
        if options.words and not any(w in model.name for w in options.words):
            continue
        found[model.name] = measured(model)
        line = ", ".join(f"{n} {s * 1e3:.1f} ms" for n, s in found[model.name].items())
        print(f"{model.name}: {line}", flush=True)
    if found:
        print(f"\n{platform.machine()}, {granted_threads()} threads\n\n{table(found)}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
