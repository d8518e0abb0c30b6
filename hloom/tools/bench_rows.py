"""What `hloom bench` measures, as data: rows, what loses, means, files of results.

A row is one number of one program (a run, a compilation, memory), hloom's beside those of others.
Less is better of every one. Losses come first everywhere: they are what somebody has to do
something about.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hloom import __version__, api
from hloom.tools.terminal import bytes_text, time_text

FORMAT = 1
"""Of files of results."""
LOSS = 1.05
"""Times the best other from which on a row is called a loss: less is noise."""


@dataclass(frozen=True)
class Row:
    """One number of one program. `unit`: `s` or `B`."""

    suite: str
    name: str
    quantity: str
    """`run`, `compile`, `dispatch` or `memory`."""
    unit: str
    hloom: float
    peers: dict[str, float] = field(default_factory=dict)
    floor: float | None = None
    """The least that this machine allows, by its measured rates; None: not asked, or not known."""
    note: str = ""

    @property
    def best(self) -> str | None:
        """The peer with the least; None without one."""
        return min(self.peers, key=self.peers.__getitem__, default=None)

    @property
    def ratio(self) -> float | None:
        """hloom's number over the least of the peers'; None where there is none."""
        best = min(self.peers.values(), default=0.0)
        return self.hloom / best if best > 0 else None

    @property
    def distance(self) -> float | None:
        """How many times the floor it is."""
        return self.hloom / self.floor if self.floor else None


@dataclass(frozen=True)
class Failure:
    """A program of which there are no numbers, and why."""

    suite: str
    name: str
    why: str


@dataclass
class Results:
    """One run of the bench."""

    machine: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def add(self, entry: dict[str, Any]) -> None:
        """A line of a child: a row, or why there is none."""
        if "why" in entry:
            self.failures.append(Failure(**entry))
        else:
            self.rows.append(Row(**entry))

    def losses(self) -> list[Row]:
        """Rows that are slower, or larger, than the best other by more than noise; worst first."""
        rows = [r for r in self.rows if (r.ratio or 0.0) > LOSS]
        return sorted(rows, key=lambda r: -(r.ratio or 0.0))

    def groups(self) -> dict[tuple[str, str], list[Row]]:
        """Rows by suite and quantity, in the order in which they came."""
        rows_of: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            rows_of.setdefault((row.suite, row.quantity), []).append(row)
        return rows_of

    def as_data(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "machine": self.machine,
            "losses": [{**asdict(r), "ratio": r.ratio} for r in self.losses()],
            "means": [
                {"suite": s, "quantity": q, "rows": len(rows), "ratio": mean_ratio(rows)}
                for (s, q), rows in self.groups().items()
            ],
            "rows": [asdict(r) for r in self.rows],
            "failures": [asdict(f) for f in self.failures],
        }


def mean_ratio(rows: Iterable[Row]) -> float | None:
    """The geometric mean of the ratios to the best other; None where no row has one."""
    logs = [math.log(r.ratio) for r in rows if r.ratio]
    return math.exp(sum(logs) / len(logs)) if logs else None


def mean_distance(rows: Iterable[Row]) -> float | None:
    """The geometric mean of the distances from the floor."""
    logs = [math.log(r.distance) for r in rows if r.distance]
    return math.exp(sum(logs) / len(logs)) if logs else None


def this_machine() -> dict[str, Any]:
    """What must be known about where numbers come from."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "hloom": __version__,
        "processor": api.host_device().name,
        "threads": api.granted_threads(),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
    }


def written(results: Results, folder: Path) -> Path:
    """Keep results in a folder, under their time; where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = results.machine["time"].replace(":", "").replace("-", "")
    path = folder / f"{stamp}.json"
    api.write_whole(path, (json.dumps(results.as_data(), indent=1) + "\n").encode())
    return path


def read(path: Path) -> Results:
    """Results of before; `UsageError` where the file is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("format") != FORMAT:
            raise ValueError(f"it has format {data.get('format')}, this hloom reads {FORMAT}")
        rows = [Row(**r) for r in data["rows"]]
        return Results(data["machine"], rows, [Failure(**f) for f in data["failures"]])
    except OSError as error:
        raise api.UsageError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise api.UsageError(
            f"{path} holds no results of hloom bench: {error}",
            hint="name a .json file of a --history folder",
        ) from None


def history(folder: Path) -> list[Results]:
    """All results of a folder, oldest first; files of others are passed over."""
    runs: list[Results] = []
    for path in sorted(folder.glob("*.json")):
        try:
            runs.append(read(path))
        except api.UsageError:
            continue
    return runs


def numbers_of(rows: Sequence[Row]) -> dict[tuple[str, str, str], float]:
    """hloom's number by suite, name and quantity."""
    return {(r.suite, r.name, r.quantity): r.hloom for r in rows}


def quantity_text(value: float, unit: str) -> str:
    """`1.5 ms`, `2 MiB`."""
    if unit == "B":
        return bytes_text(value)
    return f"{value * 1e6:.2f} us" if value < 1e-5 else time_text(value)
