"""Installs a wheel as a user would, and runs it as the most restricted of users.

    python release/check_wheel.py dist/hloom-0.1.0-py3-none-manylinux_2_28_x86_64.whl [--jax]

In a new virtual environment of the Python this runs with: no compiler on the path, no home
directory, the package's folder read-only (which binds every user but root).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--jax", action="store_true", help="with JAX, whose backend it then is")
    given = parser.parse_args()
    wheel = given.wheel.resolve()
    with tempfile.TemporaryDirectory() as folder:
        check(wheel, Path(folder), given.jax)
    print(f"{wheel.name}: works with Python {sys.version.split()[0]}")


def check(wheel: Path, folder: Path, with_jax: bool) -> None:
    environment = folder / "environment"
    run([sys.executable, "-m", "venv", str(environment)])
    package = f"{wheel}[jax]" if with_jax else str(wheel)
    run([str(environment / "bin" / "pip"), "install", "--quiet", package])
    packages = next(environment.glob("lib/python*/site-packages"))
    for path in [packages / "hloom", *(packages / "hloom").rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    bare = {"PATH": str(environment / "bin"), "HOME": "/nonexistent", "TMPDIR": str(folder)}
    hloom = str(environment / "bin" / "hloom")
    run([hloom, "--version"], bare, folder)
    for name in ("softmax", "resnet_step", "language_model"):
        program = ROOT / "examples" / f"{name}.hlo"
        run([hloom, "run", str(program), "--check"], bare, folder)
    found = json.loads(run([hloom, "doctor", "--json"], bare, folder))
    if not found["ok"]:
        sys.exit(f"hloom doctor: {found}")
    if with_jax:
        code = "import jax; x = jax.numpy.arange(4.0) + 1; print(x.devices(), x.sum())"
        python = str(environment / "bin" / "python")
        said = run([python, "-c", code], bare | {"JAX_PLATFORMS": "hloom"}, folder)
        if "10.0" not in said:
            sys.exit(f"JAX on hloom said {said}")


def run(
    command: list[str], environment: dict[str, str] | None = None, folder: Path | None = None
) -> str:
    """What a command says; ends with it if the command fails."""
    done = subprocess.run(
        command,
        env=os.environ if environment is None else environment,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
