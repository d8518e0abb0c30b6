"""Which device of a topology runs each replica and partition of a program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hloom.base.diagnostics import UsageError
from hloom.device.ids import GlobalDeviceId

_ROW = r"\d+(,\d+)*"
_WRITTEN = re.compile(rf"\{{\{{(?P<rows>{_ROW}(\}},\{{{_ROW})*)\}}\}}|(?P<row>{_ROW})")


@dataclass(frozen=True, slots=True)
class DeviceAssignment:
    """`ids[r][p]` runs replica r and partition p; written `{{0,2},{1,3}}`."""

    ids: tuple[tuple[GlobalDeviceId, ...], ...]

    @staticmethod
    def natural(replicas: int, partitions: int) -> DeviceAssignment:
        """Device r * partitions + p runs replica r and partition p."""
        numbers = [range(r * partitions, (r + 1) * partitions) for r in range(replicas)]
        return DeviceAssignment(tuple([tuple(map(GlobalDeviceId, row)) for row in numbers]))

    @staticmethod
    def parsed(text: str) -> DeviceAssignment:
        """An assignment as it is written; the braces around one replica may be left out."""
        bare = re.sub(r"\s*([{},])\s*", r"\1", text.strip())
        match = _WRITTEN.fullmatch(bare)
        if match is None:
            raise UsageError(
                f"{text!r} is no device assignment",
                rule="device-assignment",
                hint="write the device of each partition, replica by replica: {{0,2},{1,3}}",
            )
        rows = (match["rows"] or match["row"]).split("},{")
        return DeviceAssignment(
            tuple([tuple([GlobalDeviceId(int(n)) for n in row.split(",")]) for row in rows])
        )

    @staticmethod
    def named(text: str) -> DeviceAssignment:
        """An assignment as it is written, or that of the mesh in a file."""
        if not text.endswith(".toml"):
            return DeviceAssignment.parsed(text)
        from hloom.device.mesh import load_mesh

        return load_mesh(Path(text)).assignment

    @property
    def flat(self) -> tuple[GlobalDeviceId, ...]:
        """The devices replica by replica, as arguments are given."""
        return tuple([id for row in self.ids for id in row])

    @property
    def text(self) -> str:
        return "{" + ",".join(["{" + ",".join(map(str, row)) + "}" for row in self.ids]) + "}"

    def check(self, replicas: int, partitions: int, devices: int | None = None) -> None:
        """`UsageError` unless it is one for so many replicas of so many partitions, each on a
        device of its own, of those that there are (None: any number)."""
        if len(self.ids) != replicas or any(len(row) != partitions for row in self.ids):
            wrong = f"is not for {replicas} replicas of {partitions} partitions"
        elif len(set(self.flat)) != len(self.flat):
            wrong = "names a device twice"
        elif devices is not None and max(self.flat).value >= devices:
            wrong = f"names device {max(self.flat)} of {devices}"
        else:
            return
        natural = DeviceAssignment.natural(replicas, partitions).text
        raise UsageError(
            f"the device assignment {self.text} {wrong}",
            rule="device-assignment",
            hint=f"one that would do is {natural}",
        )
