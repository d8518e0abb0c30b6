"""The processes among which the devices of a program are spread, and MPI, which joins them.

MPI's library is found when it is asked for: the one that the process has already (mpi4py), one that
`$HLOOM_MPI_LIBRARY` names, one that a package has installed (`pip install 'hloom[mpi]'` brings
MPICH), or the system's. Both binary interfaces are known, MPICH's and Open MPI's
(native/processes_mpi.cc).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from ctypes import CFUNCTYPE, c_int64, c_void_p
from typing import Self

from hloom.base.diagnostics import UsageError
from hloom.device.ids import GlobalDeviceId
from hloom.runtime.library import library

SIZES = {"OMPI_COMM_WORLD_SIZE": "Open MPI", "PMI_SIZE": "MPICH", "PMIX_SIZE": "PMIx"}
"""Variables in which launchers tell how many processes they have started, by whose they are."""

PACKAGES = {"MPICH": ("mpich", "impi-rt"), "Open MPI": ("openmpi",), "PMIx": ("openmpi", "mpich")}
"""Packages that bring a library for a launcher."""

NAMES = {
    "MPICH": ("libmpi.so.12", "libmpich.so.12"),
    "Open MPI": ("libmpi.so.40",),
    "PMIx": ("libmpi.so.40", "libmpi.so.12"),
}
"""What the system calls them."""

_Take = CFUNCTYPE(None, c_void_p, c_int64)


class Processes:
    """The processes that were started together, and this one's number among them."""

    _mpi: Self | None = None

    def __init__(self, handle: int) -> None:
        native = library()
        self.handle = handle
        self.rank: int = native.hl_processes_rank(handle)
        self.size: int = native.hl_processes_size(handle)

    @classmethod
    def mpi(cls) -> Self:
        """Those that `mpirun` has started; this process alone, where it was not started by one.

        MPI is initialised the first time, unless the process has done so, and finalised when the
        process ends. `UsageError` without a library, or with one of another MPI than the launcher.
        """
        if cls._mpi is None:
            message = ctypes.create_string_buffer(4000)
            paths = "\n".join(mpi_libraries(os.environ)).encode()
            handle = library().hl_processes_mpi(paths, message, len(message))
            if not handle:
                raise UsageError(
                    message.value.decode(errors="replace").removesuffix(" [mpi]"),
                    rule="mpi",
                    hint="pip install 'hloom[mpi]' brings MPICH and its mpirun; or name a library "
                    "in $HLOOM_MPI_LIBRARY",
                )
            processes = cls(handle)
            _check_launcher(processes.size, os.environ)
            cls._mpi = processes
        return cls._mpi

    def own_part(self, devices: int) -> range:
        """The devices of a program that this process has; `UsageError` where each process cannot
        have as many as any other."""
        if devices % self.size:
            raise UsageError(
                f"a program for {devices} devices cannot be spread evenly over {self.size} "
                "processes",
                rule="processes",
                hint=f"start {_divisors(devices)} processes",
            )
        each = devices // self.size
        return range(self.rank * each, (self.rank + 1) * each)

    def own_devices(self, devices: int) -> tuple[GlobalDeviceId, ...]:
        """The same, as devices."""
        return tuple([GlobalDeviceId(d) for d in self.own_part(devices)])

    def send(self, process: int, data: bytes) -> None:
        """Send bytes to a process, behind those sent before; never waits."""
        if library().hl_processes_send(self.handle, process, data, len(data)):
            raise MemoryError(f"no memory for {len(data)} bytes to process {process}")

    def receive(self, process: int, timeout_s: float) -> bytes:
        """The next bytes that a process has sent here; `UsageError` where none come in time."""
        message = ctypes.create_string_buffer(1000)
        received: list[bytes] = []
        take = _Take(lambda at, size: received.append(ctypes.string_at(at, size) if size else b""))
        status = library().hl_processes_receive(
            self.handle, process, int(timeout_s * 1e9), take, message, len(message)
        )
        if status:
            raise UsageError(
                message.value.decode(errors="replace").removesuffix(" [processes]"),
                rule="processes",
            )
        return received[0]

    def gathered(self, data: bytes, timeout_s: float) -> list[bytes]:
        """What each process gives, in process 0; nothing in the others. All must call it."""
        if self.rank:
            self.send(0, data)
            return []
        return [data, *[self.receive(k, timeout_s) for k in range(1, self.size)]]


def launcher(environment: Mapping[str, str]) -> tuple[str, int]:
    """Whose launcher has started this process, and with how many; "" and 1 for none."""
    for variable, name in SIZES.items():
        if environment.get(variable, "").isdecimal():
            return name, int(environment[variable])
    return "", 1


def mpi_libraries(environment: Mapping[str, str]) -> list[str]:
    """The libraries to try, best first."""
    named = environment.get("HLOOM_MPI_LIBRARY")
    if named:
        return [named]
    first, _ = launcher(environment)
    families = sorted(NAMES, key=lambda name: name != first)
    installed = [path for name in families for path in _installed(PACKAGES[name])]
    known = [name for family in families for name in NAMES[family]]
    return list(dict.fromkeys([*installed, *known, "libmpi.so"]))


def _installed(packages: tuple[str, ...]) -> list[str]:
    """The libraries of installed packages."""
    from importlib import metadata  # 10 ms, and few programs have MPI

    paths: list[str] = []
    for package in packages:
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        paths += [str(f.locate().resolve()) for f in files if f.name in sum(NAMES.values(), ())]  # pyright: ignore[reportAttributeAccessIssue]
    return paths


def _check_launcher(size: int, environment: Mapping[str, str]) -> None:
    """Raise if the library does not know the launcher: each process would be alone."""
    name, count = launcher(environment)
    if size != count and size == 1:
        raise UsageError(
            f"{count} processes were started by the launcher of {name}, and the MPI library that "
            "was found does not know of it",
            rule="mpi",
            hint="use the mpirun of the same MPI, or name its library in $HLOOM_MPI_LIBRARY",
        )


def _divisors(devices: int) -> str:
    fitting = [str(n) for n in range(1, devices + 1) if devices % n == 0]
    return " or ".join([", ".join(fitting[:-1]), fitting[-1]]) if len(fitting) > 1 else fitting[0]
