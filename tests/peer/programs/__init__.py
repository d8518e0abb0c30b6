"""What JAX makes of several hundred functions; each is compared with XLA in `check.py`."""

from importlib import import_module

FAMILIES = (
    "elementwise",
    "data",
    "folds",
    "linear",
    "factorisations",
    "arrays",
    "indexing",
    "randomness",
    "control",
    "networks",
    "gradients",
    "devices",
)


def load() -> dict:
    """Every program by name; imports JAX."""
    for family in FAMILIES:
        import_module(f"tests.peer.programs.{family}")
    from tests.peer.programs.registry import PROGRAMS

    return PROGRAMS
