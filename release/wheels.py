"""Builds the sdist and the wheels of hloom, and checks on what systems they load.

    python release/wheels.py [--out dist] [--machine x86_64 --machine aarch64]

The wheels are built of the sdist, so that it is known to hold all that a build needs. Both are
cross-compiled by clang as zig ships it (the package `ziglang`), which links against any glibc:
nothing depends on the machine this runs on, and one machine makes both. `auditwheel` then says
from what glibc on each loads. Needs the packages of release/requirements.txt: `make wheels`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GLIBC = (2, 28)
"""The oldest glibc that the wheels are for: Debian 10, RHEL 8, Ubuntu 20.04 have it or a newer."""
MACHINES = ("x86_64", "aarch64")
LIBRARY = "hloom/runtime/native/libhloom_runtime.so"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--machine", action="append", choices=MACHINES)
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    sdist = build_sdist(out)
    report(sdist, "")
    for machine in given.machine or MACHINES:
        wheel = build_wheel(sdist, machine, out)
        report(wheel, f"loads from {loads_from(wheel)} on")


def platform_of(machine: str) -> str:
    return f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}"


def build_sdist(out: Path) -> Path:
    run([sys.executable, "-m", "build", "--sdist", "--outdir", str(out), str(ROOT)], {})
    return newest(out, "hloom-*.tar.gz")


def build_wheel(sdist: Path, machine: str, out: Path) -> Path:
    """A wheel for this kind of processor, of what the sdist holds."""
    environment = {
        "HLOOM_WHEEL_PLATFORM": platform_of(machine),
        "CXX": shlex.join(compiler(machine)),
        "LDFLAGS": shlex.join(["-s", *cpu_model(machine)]),
        "ZIG_GLOBAL_CACHE_DIR": str(ROOT / "build" / "zig"),
    }
    # Always the same folder, so that zig finds in its cache what it has compiled before.
    folder = ROOT / "build" / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    run([sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(source)], environment)
    return newest(out, f"hloom-*-py3-none-{platform_of(machine)}.whl")


def compiler(machine: str) -> list[str]:
    target = f"{machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    return [sys.executable, "-m", "ziglang", "c++", "-target", target]


def cpu_model(machine: str) -> list[str]:
    """What answers `__builtin_cpu_supports` on x86-64: gcc's, as zig's own knows no feature, and
    all would run, but without AVX."""
    if machine != "x86_64":
        return []
    for name in ("x86_64-linux-gnu-gcc", "gcc"):
        if found := shutil.which(name):
            done = subprocess.run(
                [found, "-m64", "-print-libgcc-file-name"], capture_output=True, text=True
            )
            if done.returncode == 0 and Path(done.stdout.strip()).is_file():
                return [done.stdout.strip()]
    sys.exit("libgcc.a for x86-64 is needed: install gcc, or gcc-x86-64-linux-gnu")


def loads_from(wheel: Path) -> str:
    """The oldest manylinux tag that the wheel is fit for; ends here if that is newer than its
    name says, or if the library is not stripped of what a build leaves."""
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True
    )
    text = " ".join(done.stdout.split())
    found = re.search(r'consistent with the following platform tag: "manylinux_(\d+)_(\d+)_', text)
    if found is None:
        sys.exit(f"auditwheel: {wheel.name} is fit for no manylinux\n{done.stdout}{done.stderr}")
    needed = int(found[1]), int(found[2])
    if needed > GLIBC:
        sys.exit(f"{wheel.name} needs glibc {found[1]}.{found[2]}\n{done.stdout}")
    return f"glibc {found[1]}.{found[2]}"


def report(path: Path, what: str) -> None:
    """A line about a file: its size, packed and unpacked, and what was found."""
    line = {"file": path.name, "bytes": path.stat().st_size}
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            line["unpacked"] = sum(i.file_size for i in archive.infolist())
            line["library"] = archive.getinfo(LIBRARY).file_size
    print(json.dumps(line | ({"checked": what} if what else {})), flush=True)


def newest(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        sys.exit(f"no {pattern} in {folder}")
    return found[-1]


def run(command: list[str], environment: dict[str, str]) -> None:
    """Runs a step quietly; ends with all it said if it fails."""
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, errors="replace"
    )
    if done.returncode:
        sys.exit(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
