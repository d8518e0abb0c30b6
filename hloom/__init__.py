"""hloom: read, check, edit, evaluate and rewrite HLO programs.

The names below are all that most programs need:

    import hloom

    module = hloom.load("step.hlo")        # text, proto or snapshot
    hloom.verify(module)
    print(hloom.evaluate(module, *arguments))

Nothing is imported until one of the names is used (PEP 562), so that `import hloom` costs
milliseconds and a command line that only wants `--help` does not pay for numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# Where each public name lives. A test holds that each is there and that __all__ is the same list.
_HOME = dict.fromkeys(
    (
        "Builder",
        "Computation",
        "HloError",
        "Instruction",
        "Literal",
        "Module",
        "Shape",
        "evaluate",
        "load",
        "parse",
        "save",
        "verify",
    ),
    "hloom.api",
)

if TYPE_CHECKING:
    from hloom.api import (
        Builder,
        Computation,
        HloError,
        Instruction,
        Literal,
        Module,
        Shape,
        evaluate,
        load,
        parse,
        save,
        verify,
    )

__all__ = [
    "Builder",
    "Computation",
    "HloError",
    "Instruction",
    "Literal",
    "Module",
    "Shape",
    "evaluate",
    "load",
    "parse",
    "save",
    "verify",
]


def __getattr__(name: str) -> object:
    """Import the home of a public name when it is first asked for, and remember it."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'hloom' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
