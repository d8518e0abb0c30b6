"""`hloom doctor`: what hloom finds on this machine, what does not fit, and what to do about it."""

from __future__ import annotations

import os
import platform
import pwd
import re
import stat
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import typer

from hloom import __version__, api
from hloom.tools.terminal import (
    WRONG_INPUT,
    AsJson,
    bytes_text,
    console,
    guarded,
    print_table,
    table,
    write_json,
)

FRAMEWORKS = ("jax", "jaxlib", "torch", "tensorflow")
"""What hloom works with, and does not need."""
PYTHONS = ((3, 11), (3, 13))
"""The oldest and the newest Python that hloom is tested with."""
VARIABLES = re.compile(r"HLOOM_|XLA_FLAGS$|JAX_PLATFORMS$|JAX_COMPILATION_CACHE_DIR$|CXX$")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    value: str
    state: str = "ok"
    """`ok`, `note` (works, but should be known) or `broken`."""
    hint: str = ""


@guarded
def doctor(as_json: AsJson = False) -> None:
    """Say what is found here: processor, threads, memory, native library, caches, versions.

    Everything that does not fit has a hint. Exit code 1: something is broken, hloom will not run
    as it should; notes alone are no reason for it.

    [bold]Examples[/bold]

      hloom doctor

      hloom doctor --json | jq '.found[] | select(.state != "ok")'
    """
    checks = [
        *_python(),
        *_machine(),
        *_native(),
        *_cache(),
        *_packages(),
        *_plugin(),
        *_environment(),
    ]
    broken = [f for f in checks if f.state == "broken"]
    if as_json:
        write_json({"ok": not broken, "hloom": __version__, "found": [asdict(f) for f in checks]})
    else:
        _show(checks)
    if broken:
        raise typer.Exit(WRONG_INPUT)


def _show(checks: list[Check]) -> None:
    rich_table = table(f"hloom {__version__}", "", "", "")
    rich_table.show_header = False
    for f in checks:
        rich_table.add_row(f.name, f.value, "" if f.state == "ok" else f.state)
    print_table(rich_table, console())
    for f in checks:
        if f.hint:
            typer.echo(f"{f.state}: {f.name}: {f.hint}")
    broken = sum([f.state == "broken" for f in checks])
    typer.echo(f"{broken} broken" if broken else "all is well")


# -- where it runs


def _python() -> list[Check]:
    here = sys.version_info[:2]
    fits = PYTHONS[0] <= here <= PYTHONS[1]
    hint = "" if fits else "hloom is for Python {}.{} to {}.{}".format(*PYTHONS[0], *PYTHONS[1])
    value = f"{platform.python_version()} at {sys.executable}"
    libc = " ".join(platform.libc_ver()) or "no glibc"
    system = f"{platform.system()} {platform.machine()}, {libc}"
    is_known = sys.platform.startswith("linux") and platform.machine() in ("x86_64", "aarch64")
    return [
        Check("python", value, "ok" if fits else "note", hint),
        Check("hloom", str(Path(__file__).parents[1])),
        Check(
            "system",
            system,
            "ok" if is_known else "broken",
            "" if is_known else "hloom runs on Linux, on x86-64 and aarch64",
        ),
    ]


def _machine() -> list[Check]:
    try:
        machine = api.Machine.host()
    except (ImportError, OSError, api.HloError) as error:
        return [Check("processor", f"LLVM does not say: {error}", "broken", _again("llvmlite"))]
    enabled = ", ".join(machine.enabled) or "none beyond the name"
    threads = api.granted_threads()
    seen = os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return [
        Check("processor", f"{machine.cpu} ({machine.architecture})"),
        Check("features", f"vectors of {machine.vector_bytes} bytes; {enabled}"),
        Check("threads", f"{threads} of {seen} processors"),
        Check("memory", bytes_text(memory)),
    ]


def _native() -> list[Check]:
    native = api.native_library()
    value = str(native.path)
    if native.error is not None:
        return [Check("native library", value, "broken", native.error)]
    if native.is_named:
        hint = "$HLOOM_RUNTIME_LIBRARY names it: it is taken as it is, and never built"
        return [Check("native library", value, "note", hint)]
    if native.is_stale:
        hint = "a source was newer: it has been built again just now"
        return [Check("native library", value, "note", hint)]
    built = f", built here by {native.compiler}" if native.is_built_here else ""
    return [Check("native library", value + built)]


def _cache() -> list[Check]:
    try:
        cache = api.program_cache()
    except api.HloError as error:
        return [Check("program cache", error.message, "broken", error.hint or "")]
    if cache is None:
        if "HLOOM_CACHE" in os.environ:
            return [Check("program cache", "off: HLOOM_CACHE")]
        hint = "no home directory: every program is compiled anew; set HLOOM_CACHE_DIR"
        return [Check("program cache", "none", "note", hint)]
    folder = cache.folder
    info = cache.info()
    holds = f"{info.entries:,} programs, {bytes_text(info.size_bytes)}"
    value = f"{folder}: {_permissions(folder)}, {holds}"
    place = next((p for p in (folder, *folder.parents) if p.exists()), Path("/"))
    if not os.access(place, os.W_OK | os.X_OK):
        hint = f"{place} cannot be written: every program is compiled anew; set HLOOM_CACHE_DIR"
        return [Check("program cache", value, "note", hint)]
    if folder.is_dir():
        mode, owner = folder.stat().st_mode, folder.stat().st_uid
        if owner != os.getuid() or mode & (stat.S_IWGRP | stat.S_IWOTH):
            hint = f"others may write programs there that run as you: chmod 700 {folder}"
            return [Check("program cache", value, "note", hint)]
    return [Check("program cache", value)]


def _permissions(folder: Path) -> str:
    """`drwx------ of ann`, or that it is not there."""
    try:
        status = folder.stat()
    except OSError:
        return "not there yet"
    try:
        owner = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        owner = str(status.st_uid)
    return f"{stat.filemode(status.st_mode)} of {owner}"


# -- packages


def _packages() -> list[Check]:
    checks = []
    bounds = _requirements()
    needed = [name for name, (_, extra) in bounds.items() if extra is None]
    for name in (*needed, *FRAMEWORKS):
        bounds_text, extra = bounds.get(name, ("", name))
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            if extra is None:
                checks.append(
                    Check(name, "not installed", "broken", f"pip install '{name}{bounds_text}'")
                )
            else:
                checks.append(Check(name, "not installed"))
            continue
        if fits(version, bounds_text):
            checks.append(Check(name, version))
            continue
        hint = f"hloom {__version__} is for {name}{bounds_text}: pip install '{name}{bounds_text}'"
        checks.append(Check(name, version, "broken" if extra is None else "note", hint))
    return checks


def _requirements() -> dict[str, tuple[str, str | None]]:
    """By package, the versions that hloom is for and the extra that wants it."""
    try:
        lines = metadata.requires("hloom") or []
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        import tomllib

        text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
        project = tomllib.loads(text)["project"]
        extras = project["optional-dependencies"]
        lines = [*project["dependencies"], *(f"{x}; extra == 'jax'" for x in extras["jax"])]
    requirements: dict[str, tuple[str, str | None]] = {}
    for line in lines:
        package, _, marker = line.partition(";")
        match = re.match(r"\s*([\w.-]+)(?:\[[^]]*\])?\s*(.*)", package)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        if match is None or (extra is not None and extra[1] != "jax"):
            continue
        requirements.setdefault(match[1], (match[2].strip(), extra[1] if extra else None))
    return requirements


def fits(version: str, bounds: str) -> bool:
    """Whether a version is within bounds such as `>=2.0,<3`; what is behind numbers is left out."""
    here = _numbers(version)
    for bound in filter(None, bounds.split(",")):
        match = re.match(r"\s*(>=|<=|<|>|==|!=)\s*([\d.]+)", bound)
        if match is None:
            continue
        limit = _numbers(match[2])
        size = max(len(here), len(limit))
        a, b = (x + (0,) * (size - len(x)) for x in (here, limit))
        holds = {">=": a >= b, "<=": a <= b, "<": a < b, ">": a > b, "==": a == b, "!=": a != b}
        if not holds[match[1]]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _again(package: str) -> str:
    return f"pip install --force-reinstall {package}"


def _plugin() -> list[Check]:
    """Whether JAX would find hloom as a backend."""
    try:
        metadata.version("jax")
    except metadata.PackageNotFoundError:
        return []
    points = metadata.entry_points(group="jax_plugins")
    if any(p.value == "hloom.plugin" for p in points):
        return [Check("JAX backend", "hloom is registered: JAX_PLATFORMS=hloom")]
    hint = "JAX does not find the backend: hloom is imported, but not installed: pip install -e ."
    return [Check("JAX backend", "not registered", "note", hint)]


def _environment() -> list[Check]:
    """The variables that change what hloom does."""
    checks = []
    for name in sorted(filter(VARIABLES.match, os.environ)):
        state, hint = "ok", ""
        if name == "XLA_FLAGS":
            try:
                idle = api.options_without_effect(api.Options.from_environment())
                if idle:
                    state, hint = "note", f"does nothing on a CPU: {', '.join(idle)}"
            except api.HloError as error:
                state, hint = "broken", error.message
        checks.append(Check(name, os.environ[name], state, hint))
    return checks
