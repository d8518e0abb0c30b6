"""Compiles the native runtime when a wheel is built, or an editable install is made.

A wheel without its library would fail at the first program, so it is not built at all. An editable
install goes on without one: the checkout compiles it at its first use, or says why it cannot.
"""

from __future__ import annotations

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
        sys.path.insert(0, self.root)
        from hloom.runtime.build import LIBRARY, BuildError, build

        try:
            build()
        except BuildError as error:
            if version != "editable":
                raise
            self.app.display_warning(f"installed without its native runtime: {error}")
            return
        # No Python.h is used, so the tag names no version of Python.
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(LIBRARY.relative_to(Path(self.root)).as_posix())
