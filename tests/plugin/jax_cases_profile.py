"""Profiles that JAX takes of programs on hloom; each function runs in a child process (`child.py`).

What is written is read back with a reader of its own: planes, lines, events and their names.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from hloom.plugin.wire import fields


@dataclass(frozen=True)
class Event:
    name: str
    thread: str
    begin_ps: int
    end_ps: int
    stats: dict[str, object]

    def holds(self, other: Event) -> bool:
        inside = self.begin_ps <= other.begin_ps and other.end_ps <= self.end_ps
        return self.thread == other.thread and inside


def of_plane(plane: list) -> list[Event]:
    """The events of a plane that hloom has written: they are on lines that say so."""
    named: dict[int, dict[int, str]] = {4: {}, 5: {}}
    for field, value in plane:
        if field in named:
            entry = dict(fields(value))
            named[field][entry[1]] = dict(fields(entry[2])).get(2, b"").decode()
    found = []
    for field, value in plane:
        if field != 3:
            continue
        line = fields(value)
        facts = dict(line)
        thread = facts.get(2, b"").decode()
        if not thread.startswith("hloom"):
            continue
        for inner, raw in line:
            if inner != 4:
                continue
            parts = dict(fields(raw))
            stats = {}
            for number, stat in fields(raw):
                if number == 4:
                    each = dict(fields(stat))
                    (value,) = [v for k, v in each.items() if k != 1] or [0]
                    text = value.decode() if isinstance(value, bytes) else value
                    stats[named[5][each[1]]] = text
            begin = facts[3] * 1000 + parts.get(2, 0)
            name = named[4][parts[1]]
            found.append(Event(name, thread, begin, begin + parts.get(3, 0), stats))
    return found


def profiled(function) -> tuple[list[Event], list[dict]]:
    """What hloom wrote while the function ran, and the events for Perfetto."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            function()
        (written,) = Path(folder).glob("**/*.xplane.pb")
        (trace,) = Path(folder).glob("**/perfetto_trace.json.gz")
        space = fields(written.read_bytes())
        planes = [fields(plane) for field, plane in space if field == 1]
        found = [e for plane in planes if (2, b"/host:CPU") in plane for e in of_plane(plane)]
        return found, json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]


def named(events: list[Event], name: str) -> list[Event]:
    return [e for e in events if e.name == name]


def case_profiles_name_programs_and_their_steps():
    def product(x):
        return jnp.sort(jnp.tanh(x @ x), 0)

    f, x = jax.jit(product), jnp.ones((200, 200))
    f(x).block_until_ready()

    def work():
        with jax.profiler.StepTraceAnnotation("train", step_num=3):
            f(x).block_until_ready()
            f(x).block_until_ready()

    events, perfetto = profiled(work)
    runs = named(events, "jit_product")
    assert len(runs) == 2, events
    for run in runs:
        assert run.stats["hlo_module"] == "jit_product" and run.stats["device_ordinal"] == 0
        steps = [e for e in events if e is not run and run.holds(e)]
        assert any("tanh" in e.name for e in steps), steps
        assert any(e.name == "sort" for e in steps), steps
        assert all(e.stats["run_id"] == run.stats["run_id"] for e in steps), steps
    assert len({run.stats["run_id"] for run in runs}) == 2
    names = [e.get("name") for e in perfetto]
    assert names.count("jit_product") == 2 and "train" in names


def case_profiles_show_compiling_and_copies():
    def fresh(x):
        return x * 2.5 - 1

    def work():
        y = jax.jit(fresh)(np.ones(1000, np.float32))
        jax.device_put(np.ones((50, 50), np.float32)[:, ::2]).block_until_ready()
        y.block_until_ready()

    events, _ = profiled(work)
    (compiling,) = named(events, "Compile jit_fresh")
    (run,) = named(events, "jit_fresh")
    assert compiling.end_ps <= run.begin_ps
    assert 5000 in [e.stats["bytes"] for e in named(events, "BufferFromHost")]


def case_a_profile_holds_what_happened_while_it_was_taken():
    def early(x):
        return x + 1

    def late(x):
        return x - 1

    f, g, x = jax.jit(early), jax.jit(late), jnp.ones(8)
    f(x).block_until_ready()
    first, _ = profiled(lambda: f(x).block_until_ready())
    f(x).block_until_ready()
    second, _ = profiled(lambda: g(x).block_until_ready())
    assert named(first, "jit_early") and not named(first, "jit_late")
    assert named(second, "jit_late") and not named(second, "jit_early")


def case_profiles_of_many_threads():
    def work(x):
        return jnp.cos(x) @ x

    f, x = jax.jit(work), jnp.ones((64, 64))
    f(x).block_until_ready()

    def all_at_once():
        threads = [
            threading.Thread(target=lambda: [f(x).block_until_ready() for _ in range(20)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    events, _ = profiled(all_at_once)
    runs = named(events, "jit_work")
    assert len({run.stats["run_id"] for run in runs}) == 80
