"""Collectives among devices of one process: hloom beside JAX's built-in backend.

    python -m bench.collectives --seconds 20

Both backends live in one process, have as many devices, and take turns; the smallest time of each
counts, as other processes only add to it. Times are microseconds a call of a jitted shard_map, and
of `Executable.run_devices`, which Python calls.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

DEVICES = int(os.environ.get("HLOOM_NUM_CPU_DEVICES", "4"))
os.environ["HLOOM_NUM_CPU_DEVICES"] = str(DEVICES)
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
os.environ.setdefault("JAX_PLATFORMS", "hloom,cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import hloom  # noqa: E402

BACKENDS = {"hloom": "hloom", "built in": "cpu"}
SIZES = {"32 B": 8, "4 KiB": 1 << 10, "64 KiB": 1 << 14, "4 MiB": 1 << 20, "64 MiB": 1 << 24}
"""Elements of f32 that each device has."""


def shift(v: Any) -> Any:
    return lax.ppermute(v, "x", [(d, (d + 1) % DEVICES) for d in range(DEVICES)])


COLLECTIVES: dict[str, Callable[[Any], Any]] = {
    "all-reduce": lambda v: lax.psum(v, "x"),
    "all-gather": lambda v: lax.all_gather(v, "x", tiled=True),
    "reduce-scatter": lambda v: lax.psum_scatter(v, "x", tiled=True),
    "all-to-all": lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True),
    "permute": shift,
    "50 all-reduces": lambda v: lax.fori_loop(
        0, 50, lambda _, c: jnp.tanh(c + lax.psum(c, "x") / 9), v
    ),
}


def program(collective: str, count: int) -> str:
    """HLO of a collective among all devices."""
    everybody = ",".join(map(str, range(DEVICES)))
    groups = f"replica_groups={{{{{everybody}}}}}, channel_id=1, use_global_device_ids=true"
    pairs = ",".join([f"{{{d},{(d + 1) % DEVICES}}}" for d in range(DEVICES)])
    what = {
        "all-reduce": f"f32[{count}] all-reduce(x), {groups}, to_apply=add",
        "all-gather": f"f32[{DEVICES * count}] all-gather(x), {groups}, dimensions={{0}}",
        "reduce-scatter": f"f32[{count // DEVICES}] reduce-scatter(x), {groups}, dimensions={{0}},"
        " to_apply=add",
        "all-to-all": f"f32[{count}] all-to-all(x), replica_groups={{{{{everybody}}}}},"
        " channel_id=1, dimensions={0}",
        "permute": f"f32[{count}] collective-permute(x), source_target_pairs={{{pairs}}},"
        " channel_id=1",
    }[collective]
    return f"""HloModule m, num_partitions={DEVICES}
add {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }}
ENTRY e {{ x = f32[{count}] parameter(0)
  ROOT r = {what} }}"""


def native_calls() -> dict[str, Callable[[], Any]]:
    """The same, by the same names, as programs of HLO."""
    found: dict[str, Callable[[], Any]] = {}
    for size, count in SIZES.items():
        given = [[np.ones(count, np.float32)] for _ in range(DEVICES)]
        for name in COLLECTIVES:
            if name[0].isdigit():
                continue
            exe = hloom.compile(program(name, count))
            found[f"{name}, {size}"] = lambda exe=exe, given=given: exe.run_devices(given)
    return found


def calls(devices: list[Any]) -> dict[str, Callable[[], Any]]:
    """What is timed, by name, on some devices."""
    mesh = Mesh(np.array(devices[:DEVICES]), ("x",))
    where = NamedSharding(mesh, P("x"))
    found: dict[str, Callable[[], Any]] = {}
    for size, count in SIZES.items():
        x = jax.device_put(np.ones(DEVICES * count, np.float32), where)
        for name, body in COLLECTIVES.items():
            if name.startswith("50") and count > 1 << 14:
                continue
            f = jax.jit(
                jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
            )
            found[f"{name}, {size}"] = lambda f=f, x=x: f(x).block_until_ready()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure")
    parser.add_argument("--most", choices=SIZES, default="4 MiB", help="the largest a device has")
    given = parser.parse_args()
    seconds, most = given.seconds, SIZES[given.most]
    for size in [size for size, count in SIZES.items() if count > most]:
        del SIZES[size]
    both = {name: calls(list(jax.devices(kind))) for name, kind in BACKENDS.items()}
    both["run_devices"] = native_calls()
    names = list(both["hloom"])
    best = {name: {which: float("inf") for which in both} for name in names}
    for each in both.values():
        for call in each.values():
            call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name in names:
            for which, found in both.items():
                if name not in found:
                    continue
                begin = time.perf_counter()
                found[name]()
                took = (time.perf_counter() - begin) * 1e6
                best[name][which] = min(best[name][which], took)
    print(f"{DEVICES} devices, {os.cpu_count()} processors; microseconds, and of the built-in time")
    print(f"{'':24} {'built in':>10} {'shard_map':>10} {'':6} {'run_devices':>11}")
    ratios: dict[str, list[float]] = {"hloom": [], "run_devices": []}
    for name, times in best.items():
        line = f"{name:24} {times['built in']:10.1f}"
        for which, found in ratios.items():
            if name in both[which]:
                found.append(times[which] / times["built in"])
                line += f" {times[which]:10.1f} {found[-1]:6.2f}"
        print(line)
    means = [f"{which} {np.exp(np.mean(np.log(found))):.2f}" for which, found in ratios.items()]
    print(f"geometric means: {', '.join(means)}")


if __name__ == "__main__":
    main()
