"""`python -m tests.fuzz.run_jax --count 5000 --report found.jsonl`: random JAX programs.

Each is drawn from one number and runs on hloom and on the built-in backend, in a process of its
own, which a server forks that has imported everything and started nothing. malloc checks what it
is given back (glibc's malloc_debug); programs of odd numbers run under guard. A report that is
there already is gone on with. In the end: what was found, and how long programs take against the
built-in backend.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, TextIO

from tests.fuzz.run_native import in_child

SECONDS = 240
"""What one program may take, on both backends."""
WARM_DRAWS, WARM_SEED = 20, 1 << 40
EXAMPLES = Path(__file__).parents[2] / "examples"
FINE = ("ok", "not judged")
MALLOC = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165"}


class Server:
    """A process that tries the numbers that it is told, each in a child of its own."""

    def __init__(self, guarded: bool, plain: bool) -> None:
        own = {"JAX_PLATFORMS": "hloom,cpu", "HLOOM_STRICT": "1", "HLOOM_CACHE": "0"}
        environment = {**os.environ, **own, **({} if plain else MALLOC)}
        environment["HLOOM_GUARD"] = "1" if guarded else "0"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.run_jax", "--serve"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.timed = not guarded

    def verdict(self, number: int) -> dict[str, Any]:
        """What became of one program."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{number} {int(self.timed)}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the server has ended: it cannot import what it needs")
        return json.loads(line)

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def serve(said: TextIO) -> None:
    """Answer numbers with lines of JSON; backends are started in children only."""
    from tests.fuzz.jax_programs.judge import attempt

    _warm()
    gc.freeze()  # a collection in a child would copy every page
    for line in sys.stdin:
        number, timed = line.split()
        start = time.monotonic()
        text = in_child(attempt, int(number), timed == "1", seconds=SECONDS)
        made = json.loads(text) if text.startswith("{") else {"verdict": text}
        if made["verdict"].startswith("crash"):
            made = _ended_early(made["verdict"])
        made |= {"number": int(number), "wall_s": round(time.monotonic() - start, 1)}
        print(json.dumps(made), file=said, flush=True)


def _ended_early(verdict: str) -> dict[str, Any]:
    """What to make of a child that a signal ended; before hloom began it is not our fault."""
    if any(f"PHASE {phase}" in verdict for phase in ("draw", "built-in", "f64")):
        return {"verdict": "not judged", "why": verdict}
    return {"verdict": verdict.replace("crash: SIGALRM", "hang:")}


def _warm() -> None:
    """Do once what every child would do first: imports, tables, caches of traces."""
    import hloom
    import hloom.plugin.compiling
    from tests.fuzz.jax_programs.assemble import drawn

    for number in range(WARM_DRAWS):
        drawn(WARM_SEED + number)
    for name in ("language_model", "resnet_step"):
        hloom.compile(hloom.load(EXAMPLES / f"{name}.hlo"), threads=1)


def kind(verdict: str) -> str:
    """What sort of find it is: its first word."""
    return verdict.split(":")[0].split(" ")[0] if verdict not in FINE else verdict


def main() -> int:
    """The exit status says whether something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first number")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--report", type=Path, help="a line of JSON for each program; resumed")
    parser.add_argument("--plain", action="store_true", help="the usual malloc and no guard")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        said = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        serve(said)
        return 0
    rows = _read(options.report)
    done = {r["number"] for r in rows}
    numbers = [n for n in range(options.seed, options.seed + options.count) if n not in done]
    servers = [Server(False, options.plain), Server(not options.plain, options.plain)]
    start = time.monotonic()
    try:
        for number in numbers:
            if time.monotonic() - start > 60 * options.minutes:
                break
            rows.append(servers[number % 2].verdict(number))
            _note(rows[-1], options.report)
    finally:
        for server in servers:
            server.end()
    found = summary(rows)
    print(json.dumps(found, indent=1))
    return 1 if found["finds"] else 0


def _read(report: Path | None) -> list[dict[str, Any]]:
    if not report or not report.exists():
        return []
    return [json.loads(line) for line in report.read_text().splitlines()]


def _note(row: dict[str, Any], report: Path | None) -> None:
    if report:
        with report.open("a") as out:
            out.write(json.dumps(row) + "\n")
    if row["verdict"] not in FINE:
        print(f"FOUND --seed {row['number']} --count 1: {row['verdict']}", flush=True)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many of each kind, the finds, and times against the built-in backend's."""
    kinds = Counter(kind(r["verdict"]) for r in rows)
    timed = [(r["run_s"][0] / r["run_s"][1], r) for r in rows if "run_s" in r]
    ratios = sorted(timed, key=lambda t: t[0])
    logs = [math.log(x) for x, _ in ratios]
    return {
        "programs": len(rows),
        "kinds": dict(kinds.most_common()),
        "finds": [
            {"number": r["number"], "verdict": r["verdict"]}
            for r in rows
            if r["verdict"] not in FINE
        ],
        "timed": len(ratios),
        "run_time_ratio": round(math.exp(sum(logs) / len(logs)), 3) if logs else None,
        "worst": [
            {"number": r["number"], "ratio": round(x, 2), "run_s": r["run_s"], "label": r["label"]}
            for x, r in ratios[:-11:-1]
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
