"""`hloom conformance`: JAX's own tests on hloom, beside the built-in backend."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from hloom import __version__, api
from hloom.tools import conformance_page
from hloom.tools.conformance_choice import EXCLUSIONS, Choice, read_exclusions
from hloom.tools.conformance_page import Results
from hloom.tools.conformance_run import (
    BACKENDS,
    DEVICES,
    Ended,
    Settings,
    forget_failures,
    run_file,
    settings_of_tests,
)
from hloom.tools.terminal import WRONG_INPUT, AsJson, guarded, write_json, write_text

TOOLS = {"absl": "absl-py", "hypothesis": "hypothesis"}
"""What JAX's tests import, by the name of the package."""


@guarded
def conformance(
    jax: Annotated[
        Path, typer.Option("--jax", metavar="PATH", help="A checkout of JAX, with its tests/.")
    ],
    sample: Annotated[
        float, typer.Option(help="The share of tests to run.", min=0.0, max=1.0)
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Which sample.", min=0)] = 0,
    files: Annotated[
        str, typer.Option(help="Only files like these: lax_test.py,tests/export*.")
    ] = "",
    timeout: Annotated[float, typer.Option(help="Seconds that a test may take.", min=1.0)] = 300.0,
    jobs: Annotated[int, typer.Option(help="Processes at a time.", min=1)] = 1,
    folder: Annotated[
        Path | None, typer.Option(help="Where results are kept, so that a run can go on later.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Run again what did not pass on hloom before.")
    ] = False,
    exclude: Annotated[
        Path, typer.Option(help="Patterns of tests to leave out, each with its reason.")
    ] = EXCLUSIONS,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the page to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run JAX's own tests on hloom and on JAX's built-in backend, with 8 devices each.

    Nothing is fetched: the checkout must be there, of the version of JAX that is installed. A run
    that is interrupted goes on when it is started again with the same settings, those of JAX in the
    environment (JAX_ENABLE_X64, JAX_NUM_GENERATED_CASES) among them; --again runs once more what
    did not pass on hloom, of which the page then tells the last outcome. Exit code 1: tests that
    the built-in backend passes do not pass on hloom.

    [bold]Examples[/bold]

      hloom conformance --jax ~/jax --sample 0.1 -o conformance.md

      hloom conformance --jax ~/jax --files lax_test.py --json
    """
    results, about, left_out = ran(jax, sample, seed, files, timeout, jobs, folder, exclude, again)
    data = conformance_page.as_data(results, about, left_out)
    text = conformance_page.page(results, about, left_out)
    if output is not None:
        output.write_text(text, encoding="utf-8")
        typer.echo(f"wrote {output}", err=True)
    if as_json:
        write_json(data)
    elif output is None:
        write_text(text)
    if data["failed_here"]:
        raise typer.Exit(WRONG_INPUT)


def ran(
    checkout: Path,
    sample: float,
    seed: int,
    files: str,
    timeout: float,
    jobs: int,
    folder: Path | None,
    exclude: Path,
    again: bool,
) -> tuple[Results, dict[str, Any], dict[str, str]]:
    """The results, what they are of, and the files that were left out with the reason."""
    version = checked_version(checkout)
    try:
        exclusions = tuple(read_exclusions(exclude))
    except (OSError, ValueError) as error:
        raise api.UsageError(f"cannot read the exclusions: {error}", rule="conformance") from None
    chosen, left_out = chosen_files(checkout, files, Choice(sample, seed, exclusions))
    check_tools(checkout, chosen)
    root = folder or Path(".cache/conformance") / f"jax-{version}-hloom-{__version__}"
    test_settings = settings_of_tests()
    digest = f"-{sha256(repr(test_settings).encode()).hexdigest()[:8]}" if test_settings else ""
    place = root.resolve() / f"sample-{sample:g}-seed-{seed}{digest}"
    settings = Settings(checkout.resolve(), place, sample, seed, timeout, exclusions)
    typer.echo(f"results are kept in {place}", err=True)
    if again:
        for file in chosen:
            forget_failures(settings, "hloom", file)
    results = run_all(settings, chosen, jobs)
    about = {
        "hloom": __version__,
        "jax": version,
        "sample": f"{100 * sample:g} % of the tests, seed {seed}",
        "files": f"{len(chosen)} run, {len(left_out)} left out",
        "devices": DEVICES,
        **(
            {"settings": ", ".join(f"{k}={v}" for k, v in test_settings.items())}
            if test_settings
            else {}
        ),
    }
    return results, about, left_out


def checked_version(checkout: Path) -> str:
    """The version of JAX in the checkout, which must be the installed one."""
    try:
        text = (checkout / "jax" / "version.py").read_text(encoding="utf-8")
        match = re.search(r'^_version\s*=\s*"([^"]+)"', text, re.M)
    except OSError:
        match = None
    if match is None or not (checkout / "tests").is_dir():
        raise api.UsageError(
            f"{checkout} is no checkout of JAX with its tests",
            rule="conformance",
            hint="the sources on the package index have none: get the repository at the tag of the "
            "version that is installed",
        )
    try:
        installed = importlib.metadata.version("jax")
    except importlib.metadata.PackageNotFoundError:
        raise api.UsageError(
            "JAX is not installed", rule="conformance", hint="pip install 'hloom[jax]'"
        ) from None
    if match[1] != installed:
        raise api.UsageError(
            f"{checkout} holds the tests of JAX {match[1]}, and JAX {installed} is installed",
            rule="conformance",
            hint=f"check out the tag jax-v{installed}",
        )
    return installed


def chosen_files(checkout: Path, globs: str, choice: Choice) -> tuple[list[str], dict[str, str]]:
    """The files to run, and those left out whole with the reason."""
    patterns = [p.strip() for p in globs.split(",") if p.strip()]
    files = sorted(p.relative_to(checkout).as_posix() for p in checkout.glob("tests/**/*_test.py"))
    if patterns:
        files = [f for f in files if any(is_like(f, p) for p in patterns)]
    if not files:
        raise api.UsageError(
            f"{checkout} has no test files" + (f" like {globs}" if globs else ""),
            rule="conformance",
        )
    left_out = {f: why for f in files if (why := choice.why_excluded(f)) is not None}
    return [f for f in files if f not in left_out], left_out


def is_like(file: str, pattern: str) -> bool:
    return fnmatchcase(file, pattern) or fnmatchcase(file.rpartition("/")[2], pattern)


def check_tools(checkout: Path, files: list[str]) -> None:
    """Raise for packages that the tests need and that are not installed."""
    text = "".join((checkout / f).read_text(encoding="utf-8", errors="replace") for f in files)
    needed = {
        package
        for name, package in TOOLS.items()
        if re.search(rf"^(from|import) {name}\b", text, re.M)
    }
    missing = [
        p
        for name, p in {"pytest": "pytest", **TOOLS}.items()
        if p in needed | {"pytest"} and importlib.util.find_spec(name) is None
    ]
    if missing:
        raise api.UsageError(
            f"JAX's tests need packages that are not installed: {', '.join(missing)}",
            rule="conformance",
            hint=f"pip install {' '.join(missing)}",
        )


def run_all(settings: Settings, files: list[str], jobs: int) -> Results:
    """Every file on both backends; a line for each on standard error."""
    results: dict[str, dict[str, dict[str, Ended]]] = {backend: {} for backend in BACKENDS}
    work = [(file, backend) for file in files for backend in BACKENDS]
    done = 0

    def run(one: tuple[str, str]) -> None:
        nonlocal done
        file, backend = one
        ended = results[backend][file] = run_file(settings, backend, file)
        done += 1
        counts = [
            f"{count} {outcome}"
            for outcome in conformance_page.OUTCOMES
            if (count := sum(e.outcome == outcome for e in ended.values()))
        ]
        typer.echo(f"{done}/{len(work)} {backend} {file}: {', '.join(counts) or 'none'}", err=True)

    executor = ThreadPoolExecutor(jobs)
    try:
        list(executor.map(run, work))
    finally:
        executor.shutdown(cancel_futures=True)
    return results
