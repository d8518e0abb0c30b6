"""Files that hold no module: what each is, by how it begins, and what to do with it.

Beside modules XLA dumps reports, graphs and machine code into the same folder, with the same
extensions, and other frameworks save models as `.pb`. A message of ours for another's bytes
("computation 0 has no name") tells nobody that.
"""

from __future__ import annotations

import re
from pathlib import Path

from hloom.base.diagnostics import UsageError

_NAMES = (
    (r"memory-usage-report\.(pb|txt)$", "XLA's report about memory"),
    (r"buffer-assignment(-values)?\.txt$", "XLA's report about buffers"),
    (r"live-range\.txt$", "XLA's report about live ranges"),
    (r"\.debug_options$", "the options that XLA compiled with"),
    (r"(^|/)saved_model\.pb$", "a TensorFlow SavedModel"),
    (r"(^|/)fingerprint\.pb$", "a part of a TensorFlow SavedModel"),
    (r"\.onnx$", "an ONNX model"),
    (r"\.pt2?$", "a PyTorch file"),
    (r"\.npz$", "an archive of numpy arrays"),
)
_BYTES = (
    (rb"\x7fELF|\xcf\xfa\xed\xfe|!<arch>", "machine code"),
    (rb"\x93NUMPY", "an array of numpy"),
    (rb"PK\x03\x04", "a zip archive"),
    (rb"\x89PNG|\xff\xd8\xff|GIF8|%PDF", "a picture or a document"),
    (rb"....TFL3", "a LiteRT (TFLite) model"),
    (rb"\x80[\x02-\x05]", "a Python pickle"),
    (rb"\xff\xfe|\xfe\xff", "UTF-16 text"),
    (rb"BC\xc0\xde", "bitcode of LLVM"),
    (rb"\s*(?i:<!doctype html|<html|<svg|<\?xml)", "a web page or picture"),
    (rb"\s*(?:strict )?(?:di)?graph\b", "a graph for Graphviz"),
    (rb"; ModuleID|source_filename = ", "LLVM IR"),
    (rb"\s*BufferAssignment:|\s*Total bytes used:", "XLA's report about buffers"),
    (rb"\s*HloLiveRange\b", "XLA's report about live ranges"),
    (rb"\s*Memory Space:", "XLA's report about memory"),
    (rb"\s*\{ lambda ", "a jaxpr"),
    (rb"\s*(?:import|from) \w+[\w. ]*\n|#!", "a script"),
    (rb"\s*[\[{]\s*(?:\"|[\[{]|\d)", "JSON"),
)
_DUMPED = "read the module that XLA dumped beside it: *.before_optimizations.txt or *.hlo.pb"
_HINTS = {
    "XLA's report": _DUMPED,
    "the options": _DUMPED,
    "a graph": _DUMPED,
    "a web page": _DUMPED,
    "machine code": "run a program that hloom saved with hloom.load_compiled",
    "LLVM": "give the HLO that it was made from",
    "bitcode": "give the HLO that it was made from",
    "an ar": "give it to `hloom run` or `hloom eval` as --inputs of a program",
    "a TensorFlow": "load it with TensorFlow, and compile a function: hloom.tensorflow.jit(f)",
    "a part of a TensorFlow": "load the folder with TensorFlow, and use hloom.tensorflow.jit(f)",
    "a PyTorch": "load it with PyTorch, and compile it: hloom.torch.compile(model, *tensors)",
    "a jaxpr": 'save jax.jit(f).lower(*arguments).as_text("hlo")',
    "UTF-16": "save it as UTF-8",
}
_ELSE = "give HLO text (.hlo, .txt), a proto (.pb, .pbtxt) or StableHLO (.mlir, .mlirbc)"


def foreign(data: bytes, name: str = "") -> UsageError | None:
    """The error that says what a file is, where it is known and no module; None otherwise."""
    what = next((w for pattern, w in _NAMES if re.search(pattern, name)), None)
    if what is None:
        what = next((w for pattern, w in _BYTES if re.match(pattern, data, re.S)), None)
    return None if what is None else _error(name, what)


def foreign_folder(path: Path) -> UsageError:
    """The error for a folder in place of a file."""
    if (path / "saved_model.pb").exists():
        return _error(str(path), "a TensorFlow SavedModel")
    modules = sorted(path.glob("*.before_optimizations.txt")) or sorted(path.glob("*.hlo.pb"))
    hint = f"name a module in it, such as {modules[0].name}" if modules else "name a file in it"
    return UsageError(f"{path}: a folder, not a module", hint=hint, rule="no-module")


def _error(name: str, what: str) -> UsageError:
    hint = next((h for start, h in _HINTS.items() if what.startswith(start)), _ELSE)
    place = f"{name}: " if name else ""
    return UsageError(f"{place}{what}, not a module of HLO", hint=hint, rule="no-module")
