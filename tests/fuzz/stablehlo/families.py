"""All families of drawn programs."""

from tests.fuzz.stablehlo import control, data, dynamic, elementwise, folds, host, linear
from tests.fuzz.stablehlo.sketch import FAMILIES, ROOMS, drawn

__all__ = [
    "FAMILIES",
    "ROOMS",
    "control",
    "data",
    "drawn",
    "dynamic",
    "elementwise",
    "folds",
    "host",
    "linear",
]
