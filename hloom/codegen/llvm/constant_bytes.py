"""Bytes as LLVM's text has them."""

from __future__ import annotations

import numpy as np


def constant_bytes(data: bytes | memoryview) -> str:
    """Type and value: `[2 x i8] c"\\00\\01"`."""
    raw = np.frombuffer(data, np.uint8)
    digits = np.frombuffer(b"0123456789ABCDEF", np.uint8)
    letters = np.empty((len(raw), 3), np.uint8)
    letters[:, 0] = ord("\\")
    letters[:, 1], letters[:, 2] = digits[raw >> 4], digits[raw & 15]
    return f'[{len(raw)} x i8] c"{letters.tobytes().decode("ascii")}"'
