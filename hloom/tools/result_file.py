"""`--result-output`: what became of a command, in a file for the programs that started it.

It is written whatever happens: status, how long each stage took, how much memory there was at most.
The numbers of statuses are those of absl::StatusCode, as everything around XLA has them.
"""

from __future__ import annotations

import functools
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from hloom import api
from hloom.tools.terminal import exit_code, warn

ResultOutput = Annotated[
    Path | None,
    typer.Option(
        "--result-output",
        "--result-output-file",
        "--result_output_file",
        help="Write status, times and memory to this file as JSON, whether it works or not.",
    ),
]

STAGES = "stages"
"""Where the command's context has the clock that it times its stages by."""

F = TypeVar("F", bound=Callable[..., Any])


def with_result(command: F) -> F:
    """The command, which writes such a file where it is asked for one (`result_output`)."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        path: Path | None = kwargs["result_output"]
        clock = kwargs["ctx"].meta[STAGES] = api.StageClock()
        error: BaseException | None = None
        try:
            with clock.stage("total"):
                return command(*args, **kwargs)
        except BaseException as problem:
            error = problem
            raise
        finally:
            if path is not None:
                _write(path, _result(error, clock.seconds), can_fail=error is None)

    return run  # type: ignore[return-value]


def _result(error: BaseException | None, seconds: dict[str, float]) -> dict[str, object]:
    number, name = _code(error)
    status: dict[str, object] = {"code": number, "name": name, "message": str(error or "")}
    if isinstance(error, api.HloError):
        status |= {"exit_code": exit_code(error), **error.as_json()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    statistics = {"seconds": seconds, "peak_memory_bytes": peak}
    return {"ok": error is None, "status": status, "statistics": statistics}


def _code(error: BaseException | None) -> tuple[int, str]:
    if error is None:
        return 0, "OK"
    if isinstance(error, api.UnsupportedError):
        return 12, "UNIMPLEMENTED"
    if isinstance(error, api.HloError):
        return 3, "INVALID_ARGUMENT"
    if isinstance(error, KeyboardInterrupt):
        return 1, "CANCELLED"
    if isinstance(error, MemoryError):
        return 8, "RESOURCE_EXHAUSTED"
    return (2, "UNKNOWN") if isinstance(error, OSError) else (13, "INTERNAL")


def _write(path: Path, result: dict[str, object], can_fail: bool) -> None:
    """Write the file; where that fails, and something has before, it is only told."""
    try:
        path.write_text(json.dumps(result, indent=2, ensure_ascii=False, default=str) + "\n")
    except OSError as error:
        message = f"cannot write {path}: {error.strerror or error}"
        if can_fail:
            raise api.UsageError(message, rule="result-output") from None
        warn(message)
