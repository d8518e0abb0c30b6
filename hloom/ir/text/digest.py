"""A hash of what a module computes."""

import hashlib

from hloom.ir.module import Module
from hloom.ir.text.options import PrintOptions
from hloom.ir.text.show import Printer


def fingerprint(module: Module) -> str:
    """A hash that two modules share when they differ only in names, ids, metadata, backend
    configs and the values of float constants.

    It is that of the ModuleFingerprint text, but that a called body counts by its own hash:
    written out where it is called, a body that is called in many places would be hashed often.
    """
    printer = Printer(PrintOptions.module_fingerprint(), module)
    for c in module.computations_in_order():
        printer.digests[c] = _digest(printer.computation_text(c, 0))
    return _digest(printer.module_text(module))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
