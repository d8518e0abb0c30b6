"""Compiles the native runtime when a wheel is built, or an editable install is made.

A wheel without its library would fail at the first program, so it is not built at all. An editable
install goes on without one: the checkout compiles it at its first use, or says why it cannot.

$HLOOM_WHEEL_PLATFORM is the platform of a wheel for others (`manylinux_2_28_aarch64`); $CXX must
then compile for it, as release/wheels.py sees to.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import (  # pyright: ignore[reportMissingImports]
    BuildHookInterface,
)


class NativeRuntime(BuildHookInterface):
    """The hook hatchling calls; its wheels fit any Python 3 on one platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles the library, and puts it into the wheel."""
        if not sys.platform.startswith("linux"):
            self.app.abort(f"hloom runs on Linux (x86-64 and aarch64), not on {sys.platform}")
        sys.path.insert(0, self.root)
        from hloom.runtime.build import LIBRARY, BuildError, build

        # No Python.h is used, so the tag names no version of Python.
        platform = os.environ.get("HLOOM_WHEEL_PLATFORM")
        library = Path(self.root, "build", platform, LIBRARY.name) if platform else LIBRARY
        try:
            build(library)
        except BuildError as error:
            if version != "editable":
                # abort, not raise: a traceback of the build backend would bury the message.
                self.app.abort(str(error))
            self.app.display_warning(f"installed without its native runtime: {error}")
            return
        tag = platform or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"
        place = LIBRARY.relative_to(Path(self.root)).as_posix()
        if platform:
            build_data["force_include"][str(library)] = place
        else:
            build_data["artifacts"].append(place)
