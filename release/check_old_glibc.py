"""Runs a wheel in a bare Debian 11 (glibc 2.31), the oldest that Debian's mirrors still serve.

    python release/check_old_glibc.py dist/hloom-0.1.0-py3-none-manylinux_2_28_x86_64.whl

Needs root, debootstrap and a Debian mirror; takes five minutes. Debian 11 has no Python that hloom
supports: Debian 12's source of Python 3.11 is compiled in a root of its own, and what that installs
is copied into a second root, which has no compiler. There `check_wheel.py` does its work.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SYSTEM, SOURCES = "bullseye", "bookworm"
HEADERS = "gcc make libc6-dev zlib1g-dev libssl-dev libffi-dev xz-utils"
CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--mirror", default="http://deb.debian.org/debian")
    given = parser.parse_args()
    wheel = given.wheel.resolve()
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare"
        run(["debootstrap", "--variant=minbase", SYSTEM, str(bare), given.mirror])
        builder = Path(folder) / "builder"
        run(["cp", "-a", str(bare), str(builder)])
        compile_python(builder, given.mirror)
        run(["cp", "-a", str(builder / "opt/python"), str(bare / "opt")])
        print(check(bare, wheel))


def compile_python(root: Path, mirror: str) -> None:
    """Python 3.11 as Debian 12 has its source, in opt/python of a Debian 11."""
    sources = root / "etc/apt/sources.list"
    sources.write_text(sources.read_text() + f"deb-src {mirror} {SOURCES} main\n")
    inside(root, "apt-get update -q")
    inside(root, f"DEBIAN_FRONTEND=noninteractive apt-get install -qy {HEADERS}")
    inside(root, "cd /tmp && apt-get source -q --download-only python3.11")
    inside(
        root, "mkdir /tmp/python && tar xf /tmp/*.orig.tar.gz -C /tmp/python --strip-components=1"
    )
    inside(root, "cd /tmp/python && ./configure -q --prefix=/opt/python && make -s -j2 install")


def check(root: Path, wheel: Path) -> str:
    """What `check_wheel.py` says inside, and of what glibc."""
    for part in ("release", "examples"):
        shutil.copytree(ROOT / part, root / "hloom" / part)
    shutil.copy(wheel, root / "hloom")
    if Path("/", CERTIFICATES).exists():  # Debian's base system has none, and pip brings its own
        (root / CERTIFICATES).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path("/", CERTIFICATES), root / CERTIFICATES)
    program = f"/opt/python/bin/python3 /hloom/release/check_wheel.py /hloom/{wheel.name}"
    return inside(root, program) + inside(root, "ldd --version").split("\n")[0]


def inside(root: Path, command: str) -> str:
    """What a command says in this root, which sees the processes of the system outside."""
    mounted = ["mount", "--bind", "/proc", str(root / "proc")]
    run(mounted)
    try:
        return run(["chroot", str(root), "sh", "-ec", f"export HOME=/root; {command}"])
    finally:
        run(["umount", str(root / "proc")])


def run(command: list[str]) -> str:
    """What a command says; ends with it if the command fails."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, env=kept, capture_output=True, text=True)
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{last}")
    return done.stdout


if __name__ == "__main__":
    main()
