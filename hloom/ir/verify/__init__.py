"""The verifier: is this graph a program that obeys the rules of the language?

    verify(module)                          # raises VerifyError for the first broken rule
    for error in violations(module): ...    # or all of them

The rules are in one file per subject; each is a generator of errors, so that nothing is worked
out, and no message formatted, before a rule is really broken. Structure comes first, then shapes;
when one of them is broken the rules that rely on it are not asked. All of it is linear in the size
of the module and nothing recurses, so modules of any size and depth are fine.
"""

from collections.abc import Iterator

from hloom.base.diagnostics import VerifyError
from hloom.ir.module import Module, expect_module
from hloom.ir.text.places import located
from hloom.ir.verify.attributes import check_attributes
from hloom.ir.verify.buffers import check_buffers
from hloom.ir.verify.calls import check_calls
from hloom.ir.verify.collectives import check_collectives
from hloom.ir.verify.deadlocks import check_deadlocks
from hloom.ir.verify.devices import check_devices
from hloom.ir.verify.layouts import check_layouts
from hloom.ir.verify.pairs import check_channels, check_pairs
from hloom.ir.verify.program import check_program
from hloom.ir.verify.rules import RULES, VerifyOptions
from hloom.ir.verify.shapes import check_shapes
from hloom.ir.verify.shardings import check_shardings
from hloom.ir.verify.structure import check_structure

__all__ = ["RULES", "VerifyError", "VerifyOptions", "verify", "violations"]

# Each level relies on the one before, and is not asked when that is broken.
_LEVELS = (
    (check_attributes,),
    (check_devices,),
    (check_pairs, check_channels, check_shapes),
    (check_collectives, check_calls, check_shardings, check_buffers, check_program, check_layouts),
    (check_deadlocks,),
)


def violations(module: Module, options: VerifyOptions | None = None) -> Iterator[VerifyError]:
    """Every broken rule of a module, one after the other; nothing for a valid one. With line and
    column where the module was read from text."""
    for error in _violations(module, options or VerifyOptions()):
        located(error, module)
        yield error


def _violations(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    sound = True
    for error in check_structure(module):
        sound = False
        yield error
    for level in _LEVELS:
        if not sound:
            return
        for check in level:
            for error in check(module, options):
                sound = False
                yield error


def verify(module: Module, options: VerifyOptions | None = None) -> None:
    """Raise `VerifyError` for the first broken rule, with instruction, rule and shapes."""
    expect_module(module, "verify")
    for error in violations(module, options):
        raise error
