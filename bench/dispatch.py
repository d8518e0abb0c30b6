"""What a call of a tiny jitted function costs in JAX: hloom beside the built-in backend.

    python -m bench.dispatch --seconds 20

Both backends live in one process, and take turns; the smallest time of a backend counts, as other
processes only add to it. Times are microseconds a call.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "hloom")

import jax
import numpy as np

GOALS = {"jit(add)": 6.0, "np.asarray of it": 9.0, "50 in, 50 out": 85.0}


def calls(device: Any) -> dict[str, Callable[[], Any]]:
    """What is timed, by name, on one device."""
    add = jax.jit(lambda a, b: a + b)
    many = jax.jit(lambda *arrays: [a + 1 for a in arrays])
    given = np.ones(8, np.float32)
    x = jax.device_put(given, device)
    fifty = [jax.device_put(given, device) for _ in range(50)]
    on_device = jax.default_device(device)

    def with_numpy() -> Any:
        with on_device:
            return add(given, given)

    return {
        "jit(add)": lambda: add(x, x),
        "and block": lambda: add(x, x).block_until_ready(),
        "np.asarray of it": lambda: np.asarray(add(x, x)),
        "2 numpy arguments": with_numpy,
        "50 in, 50 out": lambda: many(*fifty),
    }


def microseconds(call: Callable[[], Any], count: int) -> float:
    """The mean of `count` calls."""
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count * 1e6


def measured(seconds: float) -> dict[str, tuple[float, float]]:
    """Microseconds of hloom and of the built-in backend, by what is called: the least of all."""
    devices = {"hloom": jax.devices("hloom")[0], "built in": jax.devices("cpu")[0]}
    both = {name: calls(device) for name, device in devices.items()}
    best: dict[tuple[str, str], float] = {}
    for what in both["hloom"]:
        for each in both.values():
            each[what](), each[what]()
        end = time.perf_counter() + seconds / len(both["hloom"])
        while time.perf_counter() < end:
            for name, each in both.items():
                took = microseconds(each[what], 50)
                best[what, name] = min(took, best.get((what, name), took))
    return {what: (best[what, "hloom"], best[what, "built in"]) for what in both["hloom"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to measure")
    found = measured(parser.parse_args().seconds)
    print(f"{'microseconds':20} {'hloom':>8} {'built in':>9} {'ratio':>6}  goal")
    for what, (ours, theirs) in found.items():
        goal = f"{GOALS[what]:g}" if what in GOALS else ""
        print(f"{what:20} {ours:8.1f} {theirs:9.1f} {ours / theirs:6.2f}  {goal}")


if __name__ == "__main__":
    main()
