"""Models in the forms that others ship, for bench/c_libraries.py: a file, and who loads it.

A whole program for each: IREE brings one, for AOTInductor and ExecuTorch a few lines of C++ are
compiled against the headers in their packages; ONNX Runtime's and LiteRT's packages have no
headers, so theirs, and OpenVINO's, is Python that imports nothing else but numpy.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bench.peer_models import JaxOperations, Model, Weights, torch_module

Run = Callable[[], np.ndarray]
INDUCTOR = """#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>
#include <fstream>
int main(int, char **words) {
  at::set_num_threads(1);
  c10::InferenceMode mode;
  auto x = torch::empty({SHAPE});
  std::ifstream(words[2], std::ios::binary).read((char *)x.data_ptr(), x.nbytes());
  torch::inductor::AOTIModelPackageLoader loader(words[1]);
  return loader.run({x}).size() == 1 ? 0 : 1;
}
"""
EXECUTORCH = """#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <fstream>
#include <vector>
int main(int, char **words) {
  using namespace executorch::extension;
  std::vector<float> x(COUNT);
  std::ifstream(words[2], std::ios::binary).read((char *)x.data(), x.size() * 4);
  Module module(words[1]);
  auto given = from_blob(x.data(), {SHAPE});
  return module.forward(given).ok() ? 0 : 1;
}
"""
ONNX_RUNTIME = """import sys
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, ["CPUExecutionProvider"])
session.run(None, {session.get_inputs()[0].name: numpy.load(sys.argv[2])})
"""
OPENVINO = """import sys
import numpy, openvino
x = numpy.load(sys.argv[2])
core = openvino.Core()
core.set_property("CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
core.compile_model(sys.argv[1], "CPU")([x])
"""
LITERT = """import sys
import numpy
from ai_edge_litert.interpreter import Interpreter
model = Interpreter(sys.argv[1], num_threads=1)
model.allocate_tensors()
model.set_tensor(model.get_input_details()[0]["index"], numpy.load(sys.argv[2]))
model.invoke()
model.get_tensor(model.get_output_details()[0]["index"])
"""


@dataclass(frozen=True)
class Form:
    """A model in a file that somebody else runs."""

    name: str
    file: Path
    runtime_bytes: int
    load: Callable[[Path], Run]
    """From a file, to what gives the result for the one image."""
    process: list[str] | None = None
    """A program that classifies the image."""
    language: str = "C"
    """What it is written in."""


def computed(model: Model, weights: Weights) -> Callable[[Any], Any]:
    values = {name: JaxOperations.placed(name, value) for name, value in weights.items()}
    return lambda x: model.forward(JaxOperations(), values, x)


def iree_form(model: Model, weights: Weights, x: np.ndarray, folder: Path) -> Form:
    import jax
    from iree import compiler as iree_compiler  # pyright: ignore[reportMissingImports]
    from iree import runtime  # pyright: ignore[reportMissingImports]

    given = np.asarray(JaxOperations.entered(x))
    text = str(jax.jit(computed(model, weights)).lower(given).compiler_ir("stablehlo"))
    flags = ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"]
    binary = iree_compiler.compile_str(
        text, target_backends=["llvm-cpu"], input_type="stablehlo", extra_args=flags
    )
    file = folder / "model.vmfb"
    file.write_bytes(binary)
    np.save(folder / "x.npy", given)

    def load(path: Path) -> Run:
        config = runtime.Config("local-sync")
        module = runtime.VmModule.mmap(config.vm_instance, str(path))
        main = runtime.load_vm_module(module, config).main
        return lambda: np.asarray(main(given))

    program = Path(sys.executable).with_name("iree-run-module")
    words = [str(program), "--device=local-sync", f"--module={file}", "--function=main"]
    words += [f"--input=@{folder / 'x.npy'}", f"--output=@{folder / 'y.npy'}"]
    libraries = Path(str(runtime.__file__)).parents[1] / "_runtime_libs"
    size = sum(p.stat().st_size for p in libraries.glob("iree-run-module*"))
    return Form("IREE", file, size, load, words)


def compiled(source: str, x: np.ndarray, folder: Path, name: str, words: list[str]) -> Path:
    """A program in C++, and the argument's bytes beside it."""
    shape = ", ".join(map(str, x.shape))
    source = source.replace("SHAPE", shape).replace("COUNT", str(x.size))
    (folder / f"{name}.cc").write_text(source)
    (folder / "given.bin").write_bytes(x.tobytes())
    program = folder / name
    subprocess.run(
        ["c++", "-std=c++20", "-O1", "-w", str(folder / f"{name}.cc"), *words, "-o", str(program)],
        check=True,
    )
    return program


def in_python(source: str, file: Path, x: np.ndarray) -> list[str]:
    """The same in Python."""
    np.save(file.with_name("given.npy"), x)
    return [sys.executable, "-c", source, str(file), str(file.with_name("given.npy"))]


def torch_forms(model: Model, weights: Weights, x: np.ndarray, folder: Path) -> Iterator[Form]:
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    module, given = torch_module(model, weights), torch.from_numpy(x)
    exported = torch.export.export(module, (given,))
    core = Path(str(torch.__file__)).parent / "lib" / "libtorch_cpu.so"
    options = {"freezing": True}
    packed = torch._inductor.aoti_compile_and_package(
        exported, package_path=str(folder / "model.pt2"), inductor_configs=options
    )

    def load_inductor(path: Path) -> Run:
        run = torch._inductor.aoti_load_package(str(path))

        def call() -> np.ndarray:
            with torch.inference_mode():
                return run(given).numpy()

        return call

    root = core.parents[1]
    words = [f"-I{root}/include", f"-I{root}/include/torch/csrc/api/include", f"-L{core.parent}"]
    words += ["-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{core.parent}"]
    program = compiled(INDUCTOR, x, folder, "inductor", words)
    process = [str(program), str(packed), str(folder / "given.bin")]
    size = core.stat().st_size
    yield Form("AOTInductor", Path(packed), size, load_inductor, process, "C++")
    if find_spec("litert_torch") is not None and find_spec("ai_edge_litert") is not None:
        yield litert_form(module, x, folder)
    if find_spec("onnxruntime") is not None and find_spec("onnxscript") is not None:
        of_onnx = onnx_form(torch, module, x, folder)
        yield of_onnx
        if find_spec("openvino") is not None:
            yield openvino_form(of_onnx.file, x)
    if find_spec("executorch") is not None:
        yield executorch_form(torch, exported, x, folder)


def onnx_form(torch: Any, module: Any, x: np.ndarray, folder: Path) -> Form:
    import onnxruntime  # pyright: ignore[reportMissingImports]

    file = folder / "model.onnx"
    given = (torch.from_numpy(x),)
    torch.onnx.export(module, given, file, dynamo=True, verbose=False, external_data=False)

    def load(path: Path) -> Run:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        return lambda: np.asarray(session.run(None, {name: x})[0])

    libraries = (Path(str(onnxruntime.__file__)).parent / "capi").glob("libonnxruntime.so*")
    size = max([p.stat().st_size for p in libraries], default=0)
    process = in_python(ONNX_RUNTIME, file, x)
    return Form("ONNX Runtime", file, size, load, process, "Python")


def openvino_form(file: Path, x: np.ndarray) -> Form:
    """The file of ONNX, which OpenVINO reads, too."""
    import openvino  # pyright: ignore[reportMissingImports]

    def load(path: Path) -> Run:
        core = openvino.Core()
        settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        core.set_property("CPU", settings)
        model = core.compile_model(str(path), "CPU")
        return lambda: np.asarray(model([x])[0])

    root = Path(str(openvino.__file__)).parent / "libs"
    words = ("libopenvino.so*", "libopenvino_intel_cpu_plugin.so*", "libopenvino_onnx_frontend.so*")
    size = sum([p.stat().st_size for word in words for p in root.glob(word)])
    return Form("OpenVINO", file, size, load, in_python(OPENVINO, file, x), "Python")


def litert_form(module: Any, x: np.ndarray, folder: Path) -> Form:
    import ai_edge_litert  # pyright: ignore[reportMissingImports]
    import litert_torch  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]
    from ai_edge_litert.interpreter import Interpreter  # pyright: ignore[reportMissingImports]

    file = folder / "model.tflite"
    litert_torch.convert(module, (torch.from_numpy(x),)).export(str(file))

    def load(path: Path) -> Run:
        model = Interpreter(str(path), num_threads=1)
        model.allocate_tensors()
        given, result = model.get_input_details()[0], model.get_output_details()[0]

        def call() -> np.ndarray:
            model.set_tensor(given["index"], x)
            model.invoke()
            return model.get_tensor(result["index"])

        return call

    library = Path(str(ai_edge_litert.__file__)).parent / "libpywrap_litert_common.so"
    process = in_python(LITERT, file, x)
    return Form("TFLite (LiteRT)", file, library.stat().st_size, load, process, "Python")


def executorch_form(torch: Any, exported: Any, x: np.ndarray, folder: Path) -> Form:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import (  # pyright: ignore
        XnnpackPartitioner,
    )
    from executorch.exir import to_edge_transform_and_lower  # pyright: ignore
    from executorch.runtime import Runtime  # pyright: ignore

    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    file = folder / "model.pte"
    file.write_bytes(lowered.to_executorch().buffer)

    def load(path: Path) -> Run:
        method = Runtime.get().load_program(str(path)).load_method("forward")
        given = (torch.from_numpy(x),)
        return lambda: method.execute(given)[0].numpy()

    import executorch  # pyright: ignore[reportMissingImports]

    words = ("", "_kernels_optimized", "_backend_xnnpack", "_threadpool")
    root = Path(executorch.__path__[0])
    libraries = [root / "lib" / f"libexecutorch{w}.so" for w in words]
    size = sum([p.stat().st_size for p in libraries])
    include = root / "include" / "executorch"
    portable = include / "runtime" / "core" / "portable_type" / "c10"
    flags = ["-DC10_USING_CUSTOM_GENERATED_MACROS", f"-I{include.parent}", f"-I{portable}"]
    flags += ["-Wl,--no-as-needed", *map(str, libraries), f"-Wl,-rpath,{root / 'lib'}"]
    program = compiled(EXECUTORCH, x, folder, "executorch_program", flags)
    process = [str(program), str(file), str(folder / "given.bin")]
    return Form("ExecuTorch", file, size, load, process, "C++")
