"""`python -m bench.memory [words]`: the peak memory of a run against XLA:CPU, one table.

Planned: what the program's buffers take beside its arguments (temporaries, results that are not
handed back in an argument), by each compiler's own statistics. Measured: how far the resident
memory of a fresh process rises during its first run, which has the arguments in memory already.
Each contestant runs each program in a process of its own; the kernel's high-water mark is reset
before the run. `--json FILE` keeps the numbers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.native import aligned_arguments, geometric_mean, programs, shown, xla_program

MOST_ARGUMENT_BYTES = 4 << 30
LIMIT = 1.05
"""A ratio above this is a loss."""
GRANTED_BYTES = {"planned": 4096, "measured": 1 << 20}
"""Pages that a first run touches for its own sake (stacks, tables) are not what is compared."""
STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("words", nargs="*", help="files, or words that names contain")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds per process")
    parser.add_argument("--child", nargs=2, metavar=("WHO", "FILE"), help=argparse.SUPPRESS)
    return parser.parse_args()


def status_bytes(field: str) -> int:
    """`VmRSS` or `VmHWM` of this process."""
    for line in STATUS.read_text().split("\n"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


class Rise:
    """How far the resident memory rises above where it was when the block began, in `bytes`."""

    def __enter__(self) -> Rise:
        CLEAR_REFS.write_text("5")  # the high-water mark is what is resident now
        self.before = status_bytes("VmRSS")
        self.bytes = 0
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = max(0, status_bytes("VmHWM") - self.before)


# -- one program and one contestant, in a child process


def inputs(path: Path) -> tuple[Any, list[Any]]:
    """The module and its arguments in memory."""
    import hloom

    module = hloom.load(path)
    total = sum(
        leaf.size * max(1, leaf.dtype.size_bytes)
        for p in module.entry.parameters
        for leaf in p.shape.leaves()
        if leaf.is_array
    )
    if total > MOST_ARGUMENT_BYTES:
        raise SystemExit(f"{total / 1e9:.1f} GB of arguments")
    return module, aligned_arguments(hloom.random_arguments(module))


def ours(path: Path) -> dict[str, int]:
    """Planned and measured bytes of hloom."""
    import os

    os.environ["HLOOM_CACHE_DIR"] = tempfile.mkdtemp(prefix="hloom-bench-")
    import hloom

    module, arrays = inputs(path)
    exe = hloom.compile(module)
    given = as_parameters(exe, arrays)
    with Rise() as rise:
        result = exe(*given)
    del result
    use = exe.memory
    return {"planned": use.temp + use.outputs, "measured": rise.bytes}


def as_parameters(exe: Any, arrays: list[Any]) -> list[Any]:
    """The arguments, those that the program returns in place as buffers that it may have."""
    from hloom.runtime.buffer import Buffer, copied

    gone = {a.index for a in exe.program.allocations if a.is_donated}
    return [
        Buffer(p.shape, copied(x, p.shape)) if p.allocation in gone else x
        for p, x in zip(exe.program.parameters, arrays)
    ]


def theirs(path: Path) -> dict[str, int]:
    """Planned and measured bytes of XLA."""
    import jax

    jax.config.update("jax_enable_x64", True)
    _, arrays = inputs(path)
    made, _ = xla_program(path.read_text())
    device = jax.devices("cpu")[0]
    held = [jax.device_put(x, device) for x in arrays]
    for x in held:
        x.block_until_ready()
    with Rise() as rise:
        results = made.execute_sharded(held).disassemble_into_single_device_arrays()
        for shards in results:
            shards[0].block_until_ready()
    s = made.get_compiled_memory_stats()
    planned = s.temp_size_in_bytes + s.output_size_in_bytes - s.alias_size_in_bytes
    return {"planned": planned, "measured": rise.bytes}


CONTESTANTS = {"hloom": ours, "xla": theirs}

# -- all programs, and the table


def row_of(path: Path, timeout_s: float) -> dict[str, Any]:
    """Both contestants' numbers for a program; what failed is told under `error`."""
    row: dict[str, Any] = {"name": path.stem}
    for who in CONTESTANTS:
        command = [sys.executable, "-m", "bench.memory", "--child", who, str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
            row[who] = json.loads(done.stdout.strip().split("\n")[-1])
        except subprocess.TimeoutExpired:
            row["error"] = f"{who}: over {timeout_s:.0f} s"
        except (ValueError, IndexError):
            last = done.stderr.strip().split("\n")[-1][:100]
            row["error"] = f"{who}: {last or f'exit {done.returncode}'}"
    return row


def ratio(row: dict[str, Any], kind: str) -> float | None:
    """hloom's bytes over XLA's, with what is granted to both, so that noise makes no ratio."""
    if "hloom" not in row or "xla" not in row:
        return None
    granted = GRANTED_BYTES[kind]
    return (row["hloom"][kind] + granted) / (row["xla"][kind] + granted)


def table(rows: list[dict[str, Any]]) -> Table:
    """The numbers side by side; losing ratios in red."""
    made = Table(title="peak memory of a run beside its arguments, MB: hloom / XLA:CPU")
    made.add_column("program")
    kinds = ("planned", "measured")
    for kind in kinds:
        for name in (kind, "XLA", "ratio"):
            made.add_column(name, justify="right")
    for row in rows:
        if "error" in row:
            made.add_row(row["name"][:40], escape(row["error"][:60]))
            continue
        cells = [row["name"][:40]]
        for kind in kinds:
            found = ratio(row, kind)
            colour = "red" if found is None or found > LIMIT else "green"
            cells += [shown(row[who][kind], 1e-6, 2) for who in CONTESTANTS]
            cells.append(f"[{colour}]{shown(found)}[/{colour}]")
        made.add_row(*cells)
    means = ["geometric mean"]
    for kind in kinds:
        found = [r for row in rows if (r := ratio(row, kind)) is not None]
        means += ["", "", shown(geometric_mean(found))]
    made.add_row(*means, style="bold")
    return made


def main() -> None:
    """Measure and print."""
    options = arguments()
    if options.child:
        who, path = options.child
        print(json.dumps(CONTESTANTS[who](Path(path))))
        return
    console = Console(width=None if sys.stdout.isatty() else 120)
    rows = [row_of(path, options.timeout) for path in programs(options.words)]
    console.print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
