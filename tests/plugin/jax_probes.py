"""Questions to JAX whose answers are the same on hloom as on the built-in backend.

Each probe yields names and calls, made in that order; test_same_as_built_in.py compares.
"""

from __future__ import annotations

import copy
import logging
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.extend.backend
import jax.numpy as jnp
import numpy as np
from jax import lax, monitoring
from jax._src.lax import parallel
from jax.experimental import ode
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

Questions = Iterator[tuple[str, Callable[[], Any]]]
D = jax.devices()
OVER = Mesh(np.array(D), "i")
GRID = Mesh(np.array(D).reshape(4, 2), ("a", "b"))
X = np.arange(8, dtype=np.float32)
TYPES = """bool int4 int8 int64 uint2 uint16 uint32 bfloat16 float16 float32 float64 complex64
complex128 float4_e2m1fn float8_e4m3fn float8_e5m2fnuz float8_e8m0fnu""".split()


def aligned(a: np.ndarray) -> np.ndarray:
    """A copy that both backends would take as it is."""
    raw = np.zeros(a.nbytes + 64, np.uint8)
    at = -raw.ctypes.data % 64
    found = raw[at : at + a.nbytes].view(a.dtype).reshape(a.shape)
    found[...] = a
    return found


def at_odd_address(a: np.ndarray) -> np.ndarray:
    """A copy that is aligned to nothing."""
    raw = np.zeros(a.nbytes + 65, np.uint8)
    at = -raw.ctypes.data % 64 + 1
    raw[at : at + a.nbytes] = a.view(np.uint8).ravel()
    return raw[at : at + a.nbytes].view(a.dtype)


def probe_types() -> Questions:
    jax.config.update("jax_enable_x64", True)
    for name in TYPES:
        a = (jnp.arange(6).reshape(2, 3) % 2).astype(name)
        yield f"{name} shown", lambda a=a: repr(a)
        yield f"{name} sizes", lambda a=a: (a.nbytes, a.itemsize, a.on_device_size_in_bytes())
        yield f"{name} aligned", lambda a=a: a.unsafe_buffer_pointer() % 64
        yield f"{name} flags", lambda a=a: np.asarray(a).flags
        yield f"{name} buffer", lambda a=a: (memoryview(a).format, memoryview(a).readonly)
        yield f"{name} dlpack", lambda a=a: repr(jnp.from_dlpack(a))
        yield f"{name} to numpy", lambda a=a: np.from_dlpack(a)
        yield f"{name} pickled", lambda a=a: repr(pickle.loads(pickle.dumps(a)))
        yield f"{name} put", lambda a=a: repr(jax.device_put(np.asarray(a), D[3]))
    jax.config.update("jax_enable_x64", False)


def probe_numpy() -> Questions:
    base = aligned(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    views = {
        "whole": base,
        "turned": base.T,
        "backwards": base[::-1, :, ::-1],
        "steps": base[:, ::2, 1::2],
        "spread": np.broadcast_to(base[0], (2, 3, 4)),
        "empty": base[:0],
        "scalar": base[0, 0, 1],
        "odd address": at_odd_address(base),
    }
    for name, a in views.items():
        yield f"{name} asarray", lambda a=a: jnp.asarray(a)
        yield f"{name} jit", lambda a=a: jax.jit(jnp.sum)(a)
        for copied in (None, True, False):
            yield f"{name} dlpack copy={copied}", lambda a=a, c=copied: jnp.from_dlpack(a, copy=c)
            yield f"{name} copy={copied}", lambda a=a, c=copied: jnp.asarray(a, copy=c)
    fixed = base.copy()
    fixed.flags.writeable = False
    yield "read-only", lambda: (jnp.asarray(fixed), jnp.from_dlpack(fixed))
    yield "dlpack ptr", lambda: jnp.from_dlpack(base).unsafe_buffer_pointer() == base.ctypes.data
    yield "big-endian", lambda: jnp.asarray(base.astype(">f4"))
    yield "record", lambda: jnp.asarray(np.zeros(2, [("a", "f4")]))


def probe_arrays() -> Questions:
    x = jnp.arange(12.0).reshape(3, 4)
    yield "about", lambda: (x.sharding, x.format, x.committed, x.weak_type, x.device)
    yield "shards", lambda: x.addressable_shards
    yield "no such shard", lambda: x.addressable_data(1)
    yield "__array__", lambda: (x.__array__(np.int32), x.__array__(copy=True).flags.writeable)
    yield "same memory", lambda: x.unsafe_buffer_pointer() == np.asarray(x).ctypes.data
    yield (
        "copies",
        lambda: [
            c.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
            for c in (x.copy(), copy.copy(x), copy.deepcopy(x), jax.device_put(x, may_alias=False))
        ],
    )
    yield "item", lambda: x.item()
    yield "written", lambda: np.asarray(x).__setitem__(0, 1)
    for keywords in ({"max_version": (1, 0)}, {"copy": True}, {"stream": None}):
        yield f"dlpack {keywords}", lambda k=keywords: str(x.__dlpack__(**k))[:24]
    yield "memories", lambda: [(str(m), repr(m)) for m in D[1].addressable_memories()]
    gone = x + 1
    gone.delete()
    uses = {
        "numpy": np.asarray,
        "add": lambda a: a + 1,
        "put": lambda a: jax.device_put(a, D[1]),
        "pickle": pickle.dumps,
        "shards": lambda a: a.addressable_shards[0].data,
        "pointer": lambda a: a.unsafe_buffer_pointer(),
        "jit": jax.jit(lambda a: a),
        "dlpack": lambda a: a.__dlpack__(),
        "again": lambda a: (a.delete(), a.is_deleted(), a.shape),
    }
    for name, use in uses.items():
        yield f"deleted {name}", lambda u=use: u(gone)


def probe_sharded() -> Questions:
    base = np.arange(64.0).reshape(8, 8)
    for spec in (P(), P("a"), P("a", "b"), P(("b", "a"))):
        a = jax.device_put(base, NamedSharding(GRID, spec))
        yield f"{spec} shown", lambda a=a: (repr(a), a.is_fully_replicated)
        yield (
            f"{spec} shards",
            lambda a=a: [(s.device, s.index, s.replica_id, s.data) for s in a.addressable_shards],
        )
        yield f"{spec} pointer", lambda a=a: a.unsafe_buffer_pointer() and 0
        yield f"{spec} pickled", lambda a=a: pickle.loads(pickle.dumps(a)).sharding
        yield (
            f"{spec} results",
            lambda a=a: [
                r.sharding for r in (a + 1, a.T, a.sum(0), a @ a, a.reshape(-1), jnp.sort(a))
            ],
        )
    yield "uneven", lambda: jax.device_put(X[:7], NamedSharding(OVER, P("i")))


def probe_linear_algebra() -> Questions:
    random = np.random.default_rng(0)
    square = random.standard_normal((16, 4, 4)).astype(np.float32)
    positive = square @ square.swapaxes(1, 2) + 4 * np.eye(4, dtype=np.float32)
    calls = {
        "cholesky": (jnp.linalg.cholesky, positive),
        "qr": (jnp.linalg.qr, square),
        "eigh": (jnp.linalg.eigh, positive),
        "svd": (jnp.linalg.svd, square),
        "lu": (lax.linalg.lu, square),
        "triangular": (
            lambda a: lax.linalg.triangular_solve(a, a, left_side=True, lower=True),
            positive,
        ),
    }
    for name, (f, a) in calls.items():
        for spec in (P("a"), P(("a", "b")), P(None, "b")):
            g, b = jax.jit(f), jax.device_put(a, NamedSharding(GRID, spec))
            yield f"{name} {spec}", lambda g=g, b=b: [r.sharding for r in jax.tree.leaves(g(b))]
            if spec[0]:
                yield (
                    f"{name} {spec} gathers",
                    lambda g=g, b=b: "all-gather" in g.lower(b).compile().as_text(),
                )


def probe_places() -> Questions:
    def where(tree: Any) -> list[Any]:
        return [(sorted(map(str, a.devices())), a.committed) for a in jax.tree.leaves(tree)]

    one, two, free = jax.device_put(X, D[1]), jax.device_put(X, D[2]), jnp.asarray(X)
    spread = jax.device_put(X, NamedSharding(OVER, P("i")))
    half = jax.device_put(X, NamedSharding(Mesh(np.array(D[:4]), "i"), P("i")))
    yield "results", lambda: where([one + 1, one + free, free + 1, jnp.sin(one), spread + 1])
    yield "two devices", lambda: one + two
    yield "device and mesh", lambda: one + spread
    yield "two meshes", lambda: half + spread
    yield "in_shardings", lambda: jax.jit(lambda a: a, in_shardings=one.sharding)(two)
    yield "out_shardings", lambda: where(jax.jit(lambda a: a, out_shardings=two.sharding)(free))
    yield "device=", lambda: where([jnp.ones(3, device=D[3]), jnp.zeros_like(one, device=D[0])])
    with jax.default_device(D[5]):
        yield "default", lambda: where([jnp.ones(3), free + 1, one + 1, jax.device_put(X)])
    yield "chain", lambda: where(jax.device_put(jax.device_put(one, D[2]), D[1]))
    yield "inside", lambda: where(jax.jit(lambda a: jax.device_put(a, D[3]) + 1)(free))
    yield "branches", lambda: lax.cond(two[0] > 0, lambda a: a, lambda a: a + 1, one)
    yield (
        "donated",
        lambda: (lambda a: (jax.device_put(a, D[1], donate=True), a.is_deleted()))(free + 1),
    )
    yield (
        "memory kind",
        lambda: jax.device_put(X, SingleDeviceSharding(D[0], memory_kind="none")),
    )
    yield "too many", lambda: jax.pmap(lambda a: a)(np.zeros(9))


def probe_platforms() -> Questions:
    for name in (None, "cpu", "gpu", "nope"):
        yield f"devices {name}", lambda n=name: jax.devices(n)
        yield f"counts {name}", lambda n=name: (jax.device_count(n), jax.process_indices())
        yield f"backend {name}", lambda n=name: jax.extend.backend.get_backend(n).platform
        yield f"jit {name}", lambda n=name: jax.jit(lambda a: a + 1, backend=n)(1.0).device
    yield "default", lambda: (jax.default_backend(), D[1].device_kind, D[1].platform, str(D[1]))
    yield "set too late", lambda: jax.config.update("jax_num_cpu_devices", 3)


SHAPE = jax.ShapeDtypeStruct((8,), np.float32)
PROGRAMS: dict[str, Callable[..., Any]] = {
    "sine": lambda a: jnp.sin(a) * 3,
    "python": lambda a: jax.pure_callback(lambda v: v + 1, SHAPE, a),
    "region": jax.shard_map(lambda a: lax.psum(a, "i"), mesh=OVER, in_specs=P("i"), out_specs=P()),
    "nothing": lambda a: None,
}


def probe_cache() -> Questions:
    events: list[str] = []
    monitoring.register_event_listener(lambda name, **_: events.append(name))
    folders: list[Path] = []

    def fresh(**settings: Any) -> None:
        compilation_cache.reset_cache()
        folders.append(Path(tempfile.mkdtemp()))
        always = {
            "jax_compilation_cache_dir": str(folders[-1]),
            "jax_persistent_cache_min_compile_time_secs": 0,
            "jax_persistent_cache_min_entry_size_bytes": -1,
            "jax_raise_persistent_cache_errors": False,
        }
        for name, value in {**always, **settings}.items():
            jax.config.update(name, value)

    def run(f: Callable[..., Any], *arguments: Any, **settings: Any) -> list[str]:
        jax.clear_caches()
        events.clear()
        jax.block_until_ready(jax.jit(f, **settings)(*arguments))
        return [e.rsplit("/", 1)[-1] for e in events if "cache" in e]

    def spoilt(content: Callable[[bytes], bytes]) -> None:
        for path in folders[-1].glob("*-cache"):
            path.write_bytes(content(path.read_bytes()))

    for name, f in PROGRAMS.items():
        fresh()
        yield f"{name} twice", lambda f=f: (run(f, X), run(f, X))
    fresh()
    sine = PROGRAMS["sine"]
    for settings in ({}, {"donate_argnums": 0}, {"in_shardings": NamedSharding(OVER, P("i"))}):
        yield f"key {list(settings)}", lambda s=settings: (run(sine, X, **s), run(sine, X, **s))
    yield "key type", lambda: run(sine, X.astype(np.float16))
    yield "key device", lambda: run(sine, jax.device_put(X, D[2]))
    for settings in (
        {"jax_persistent_cache_min_compile_time_secs": 1000},
        {"jax_persistent_cache_min_entry_size_bytes": 1 << 30},
        {"jax_raise_persistent_cache_errors": True},
    ):
        fresh(**settings)
        yield f"{settings}", lambda: (run(sine, X), run(sine, X))
        spoilt(lambda _: b"junk")
        yield f"{settings} junk", lambda: run(sine, X)
    for name, content in {"half": lambda b: b[: len(b) // 2], "empty": lambda _: b""}.items():
        fresh()
        yield f"{name} written", lambda: run(sine, X)
        spoilt(content)
        yield f"{name} read", lambda: run(sine, X)
    fresh(jax_compilation_cache_dir="/proc/nowhere")
    yield "no folder", lambda: run(sine, X)
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()


def probe_logs() -> Questions:
    records: list[tuple[str, str]] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append((record.name, record.getMessage().split(" in ")[0][:60]))

    def logged() -> list[tuple[str, str]]:
        logger, kept = logging.getLogger("jax"), Kept(logging.WARNING)
        logger.addHandler(kept)
        jax.clear_caches()
        jax.jit(lambda a: a * 3)(X).block_until_ready()
        logger.removeHandler(kept)
        return records

    yield "nothing", logged
    with jax.log_compiles(True):
        yield "compiles", logged


def probe_async() -> Questions:
    """Collectives that start and end, on 8 devices; vmap and gradients of them."""
    ring = [(k, (k + 1) % 8) for k in range(8)]
    rows = np.arange(512, dtype=np.float32).reshape(64, 8)
    calls: dict[str, Callable[[Any], Any]] = {
        "psum": lambda v: parallel.psum_start(v, "i").done(),
        "gather": lambda v: parallel.all_gather_start(v, "i", tiled=True).done(),
        "permute": lambda v: parallel.ppermute_start(v, "i", ring).done(),
        "scatter": lambda v: parallel.psum_scatter_start(v, "i", tiled=True).done(),
        "two": lambda v: sum(s.done() for s in [parallel.psum_start(v * k, "i") for k in (1, 2)]),
        "never done": lambda v: (parallel.ppermute_start(v, "i", ring), v)[1],
        "loop": lambda v: lax.fori_loop(
            0, 3, lambda k, c: parallel.ppermute_start(c, "i", ring).done() + k, v
        ),
    }
    for name, f in calls.items():
        for checked in (True, False):
            g = jax.jit(
                jax.shard_map(f, mesh=OVER, in_specs=P("i"), out_specs=P("i"), check_vma=checked)
            )
            yield f"{name} {checked}", lambda g=g: g(rows).sum()
            yield f"{name} {checked} vmap", lambda g=g: jax.vmap(g)(np.stack([rows, rows])).sum()
            yield f"{name} {checked} grad", lambda g=g: jax.grad(lambda v: g(v).sum())(rows).sum()


def probe_equations() -> Questions:
    def rounded(values: Any) -> list[Any]:
        return [f"{v + 1e-5:.2f}" for a in jax.tree.leaves(values) for v in np.ravel(a)]

    def solved(y: Any, rate: Any) -> Any:
        return ode.odeint(lambda y, t, r: -r * y + jnp.sin(t), y, times, rate)

    def stiff(y: Any, t: Any) -> Any:
        return jnp.array([-500 * y[0] + 499 * y[1], y[0] - 2 * y[1]])

    times = np.linspace(0, 3, 7).astype(np.float32)
    one, rate = np.float32(1), np.float32(0.7)
    yield "decay", lambda: rounded(solved(one, rate))
    yield (
        "gradients",
        lambda: rounded(jax.grad(lambda y, r: solved(y, r).sum(), (0, 1))(one, rate)),
    )
    yield "many", lambda: rounded(jax.vmap(lambda y: solved(y, rate))(X))
    yield (
        "stiff",
        lambda: rounded(
            ode.odeint(stiff, np.array([1, 0.5], np.float32), times, rtol=1e-4, atol=1e-6)
        ),
    )


def probe_wide() -> Questions:
    f = jax.jit(lambda a: jnp.sin(a) + 1)
    for wide in (False, True, False, True):
        with jax.enable_x64(wide):
            yield f"{wide}", lambda: (f(np.float64(0.5)).dtype, jnp.arange(2).dtype)
            with jax.enable_x64(not wide):
                yield f"{wide} not", lambda: (f(np.float64(0.5)).dtype, f._cache_size())
    with jax.enable_x64(True):
        y = jnp.arange(4.0)
    yield "outside", lambda: [(y + 1).dtype, f(y).dtype, lax.scan(lambda c, v: (c, c), y[0], y)[1]]

    def narrow(a: Any) -> Any:
        with jax.enable_x64(False):
            return a * 2

    with jax.enable_x64(True):
        yield "two widths", lambda: str(jax.jit(narrow)(np.arange(3.0)).dtype)

    def of_threads() -> list[str]:
        found: dict[int, str] = {}

        def work(k: int) -> None:
            with jax.enable_x64(k % 2 == 0):
                found[k] = str([f(np.float64(k)).dtype for _ in range(9)][-1])

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return [found[k] for k in sorted(found)]

    yield "threads", of_threads
