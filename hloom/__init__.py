"""hloom: read, check, edit, evaluate, rewrite and compile HLO programs.

The names below are all that most programs need:

    import hloom

    module = hloom.load("step.hlo")        # text, proto or snapshot
    hloom.verify(module)
    print(hloom.evaluate(module, *arguments))
    run = hloom.compile(module)            # native code
    print(run(*arguments))

Nothing is imported until one of the names is used (PEP 562), so that `import hloom` costs
milliseconds and a command line that only wants `--help` does not pay for numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hloom.aot.export import export_c
    from hloom.aot.loading import load_library
    from hloom.api import *

# What users need of hloom.api (the command line needs more); written out for type checkers.
__all__ = [
    "PASSES",
    "PRESETS",
    "Buffer",
    "Builder",
    "CompilationResult",
    "Computation",
    "EvalOptions",
    "Executable",
    "ExecuteOptions",
    "FixedPoint",
    "HloError",
    "Instruction",
    "Literal",
    "Loaded",
    "Module",
    "Options",
    "Pass",
    "PassResult",
    "Pipeline",
    "PipelineOptions",
    "PrintOptions",
    "Shape",
    "Trace",
    "VerifyOptions",
    "compile",
    "compile_ahead_of_time",
    "copy_module",
    "difference",
    "evaluate",
    "evaluate_lockstep",
    "evaluate_partially",
    "export_c",
    "file_bytes",
    "fingerprint",
    "load",
    "load_bytes",
    "load_compiled",
    "load_file",
    "load_library",
    "load_text",
    "parse",
    "pass_named",
    "random_arguments",
    "save",
    "show",
    "verify",
    "violations",
]


# What does not live in hloom.api.
_ELSEWHERE = {"export_c": "hloom.aot.export", "load_library": "hloom.aot.loading"}
# Modules for those who have the packages of these names.
_DOORS = ("jax", "tensorflow", "torch")


def __getattr__(name: str) -> object:
    """A public name, imported when it is first asked for, and remembered."""
    if name in _DOORS:
        return import_module(f"hloom.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'hloom' has no attribute {name!r}")
    value = getattr(import_module(_ELSEWHERE.get(name, "hloom.api")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
