"""Calls of LAPACK whose results are not unique, told to settle signs and phases.

Eigenvectors, singular vectors and Schur forms are compared with those of another implementation
only where both choose the same of many forms: the attribute `settled` asks for it.
"""

from __future__ import annotations

import re

from hloom.ir.eigh_call import is_eigh, words
from hloom.ir.module import Module
from hloom.ir.values.backend_config import BackendConfig

SETTLED = "settled"

FREE = re.compile(r"lapack_[sdcz](gees|geev|gesdd|gesvd|syevd|heevd)_ffi")


def settle_signs(module: Module) -> None:
    """Give every call whose results may have any sign or phase the attribute `settled`."""
    for c in module.computations:
        for i in c.instructions:
            if i.opcode != "custom-call":
                continue
            if is_eigh(i) and SETTLED not in words(i):
                i.backend_config = BackendConfig(",".join([*words(i), SETTLED]))
            if not FREE.fullmatch(i.attrs.custom_call_target):
                continue
            raw = i.backend_config.raw.strip() if i.backend_config is not None else ""
            inside = raw[1:-1] if raw.startswith("{") else raw
            if SETTLED not in inside:
                more = ", ".join(filter(None, [inside.strip(), f"{SETTLED} = 1 : i32"]))
                i.backend_config = BackendConfig("{" + more + "}")
