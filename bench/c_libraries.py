"""Models as C libraries beside other forms that are shipped: `python -m bench.c_libraries [words]`.

Each model of bench/peers.py becomes a C library, a module of IREE, a package of AOTInductor, and a
file of ONNX Runtime, of OpenVINO, of ExecuTorch (XNNPACK) and of TFLite (LiteRT), as far as they
are installed (bench/shipped_forms.py), with the same weights inside. What is measured, in f32 and
on one processor, taking turns in one process:

    size      of the model's files, weights included; and of the runtime that they need beside them
    first     loading the model from a file that no one has opened yet, and one image, by a
              process that has the runtime already
    latency   of an image, median
    process   a whole program that starts, loads the model, classifies one image and ends: in C for
              hloom, iree-run-module for IREE, C++ for AOTInductor and ExecuTorch; Python for ONNX
              Runtime, OpenVINO and LiteRT, whose packages have no headers

All have to agree. Losing rows come first.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from bench.peer_models import MODELS, JaxOperations, Model, Weights
from bench.shipped_forms import Form, Run, computed, iree_form, torch_forms
from hloom.aot.link import compiler
from hloom.aot.loading import LibraryFunction

TOLERANCE = 2e-3
ROUNDS, SECONDS, LOADS = 40, 6.0, 5
CALLER = """#include <stdio.h>
#include <stdlib.h>
#include "model.h"
int main(int count, char **words) {
  char *x = malloc(MODEL_INPUT_x_BYTES);
  char *y = aligned_alloc(64, (MODEL_OUTPUT_y_BYTES + 63) / 64 * 64);
  char *workspace = aligned_alloc(64, (MODEL_WORKSPACE_BYTES + 127) / 64 * 64);
  FILE *file = fopen(words[1], "rb");
  if (!file || fread(x, 1, MODEL_INPUT_x_BYTES, file) != MODEL_INPUT_x_BYTES) return 2;
  model_arrays a = {.x = (void *)x, .y = (void *)y, .workspace = workspace};
  return count == 2 ? model_call(&a) : 2;
}
"""


def hloom_form(model: Model, weights: Weights, x: np.ndarray, folder: Path) -> Form:
    import hloom
    import hloom.jax

    given = np.asarray(JaxOperations.entered(x))
    file, header = folder / "libmodel.so", folder / "model.h"
    function = computed(model, weights)
    for path in (file, folder / "libmodel.a"):
        hloom.jax.export_c(
            function,
            given,
            path=path,
            header_path=header,
            argument_names=["x"],
            result_names=["y"],
        )
    (folder / "main.c").write_text(CALLER)
    (folder / "x.bin").write_bytes(given.tobytes())
    program = folder / "main"
    words = [*compiler("bench"), "-O2", folder / "main.c", folder / "libmodel.a", "-lm"]
    subprocess.run([*map(str, words), "-o", str(program)], check=True)

    def load(path: Path) -> Run:
        library = hloom.load_library(path, header)
        assert isinstance(library, LibraryFunction)
        y = np.empty(library.outputs["y"].shape.dims, np.float32)
        return lambda: library.run({"x": given}, {"y": y})["y"]

    return Form("hloom", file, 0, load, [str(program), str(folder / "x.bin")])


def forms(model: Model, weights: Weights, x: np.ndarray, folder: Path) -> Iterator[Form]:
    yield hloom_form(model, weights, x, folder)
    if find_spec("iree") is not None:
        yield iree_form(model, weights, x, folder)
    if find_spec("torch") is not None:
        yield from torch_forms(model, weights, x, folder)


@dataclass
class Row:
    model: str
    form: Form
    file_mb: float
    first_ms: float
    latency_ms: float
    process_ms: float | None


def first_ms(form: Form, folder: Path) -> float:
    """The median of some loads, each of a copy that nobody has opened."""
    times = []
    for k in range(LOADS):
        copy = folder / f"copy{k}-{form.file.name}"
        shutil.copyfile(form.file, copy)
        begin = time.perf_counter()
        form.load(copy)()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def process_ms(form: Form) -> float | None:
    if form.process is None:
        return None
    times = []
    for _ in range(11):
        begin = time.perf_counter()
        subprocess.run(form.process, check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def measured(model: Model) -> list[Row]:
    rng = np.random.default_rng(0)
    weights, x = model.weights(rng), model.argument(rng)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = list(forms(model, weights, x, folder))
        runs = {form.name: form.load(form.file) for form in built}
        wanted = np.array(runs["hloom"]())
        for name, run in runs.items():
            worst = float(np.abs(np.array(run()) - wanted).max()) / float(np.abs(wanted).max())
            if not worst <= TOLERANCE:
                raise ValueError(f"{model.name}: {name} differs by {worst:.2g}")
        times: dict[str, list[float]] = {name: [] for name in runs}
        end = time.perf_counter() + SECONDS * len(runs)
        while len(times["hloom"]) < ROUNDS and time.perf_counter() < end:
            for name, run in runs.items():
                begin = time.perf_counter()
                run()
                times[name].append(time.perf_counter() - begin)
        return [
            Row(
                model.name,
                form,
                form.file.stat().st_size / 1e6,
                first_ms(form, folder),
                statistics.median(times[form.name]) * 1e3,
                process_ms(form),
            )
            for form in built
        ]


def report(rows: list[Row]) -> str:
    """The rows of a model together, those models first in which hloom's latency is worst."""

    def ratio(model: str) -> float:
        own = next(r.latency_ms for r in rows if r.model == model and r.form.name == "hloom")
        others = [r.latency_ms for r in rows if r.model == model and r.form.name != "hloom"]
        return own / min(others, default=own)

    models = sorted({r.model for r in rows}, key=ratio, reverse=True)
    lines = ["| model | form | file MB | runtime MB | first ms | latency ms | process ms |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name in models:
        for r in sorted([r for r in rows if r.model == name], key=lambda r: r.latency_ms):
            beside = r.form.runtime_bytes / 1e6
            process = "" if r.process_ms is None else f"{r.process_ms:.1f} ({r.form.language})"
            lines.append(
                f"| {name} | {r.form.name} | {r.file_mb:.1f} | {beside:.1f} | {r.first_ms:.1f} |"
                f" {r.latency_ms:.2f} | {process} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", help="models whose names have one of these in them")
    chosen = parser.parse_args().words
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows: list[Row] = []
    for model in MODELS:
        if not chosen or any(word.lower() in model.name.lower() for word in chosen):
            rows += measured(model)
    print(report(rows))


if __name__ == "__main__":
    main()
