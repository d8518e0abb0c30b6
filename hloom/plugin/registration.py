# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Making the backend known to JAX, and what its clients are made with.

JAX asks every plugin that is installed, so one that was not asked for must not get in the way: it
is registered behind the built-in CPU, and not at all where JAX_PLATFORMS names others only.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Any

from hloom.api import HloError, library_path
from hloom.plugin.embedded import start
from hloom.plugin.versions import unsupported

NAME = "hloom"
PRIORITY = -10
"""Below that of the built-in CPU, 0: the default only where it is asked for."""
DEVICES = "HLOOM_NUM_CPU_DEVICES"
_XLA_DEVICES = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
LOG = logging.getLogger("hloom")


def register() -> None:
    """Register the backend; where that cannot be, say why and leave JAX as it is."""
    import jax
    from jax._src import xla_bridge
    from jax.version import __version__ as jax_version
    from jaxlib import xla_client
    from jaxlib.version import __version__ as jaxlib_version

    asked = [name.strip() for name in (_configured("jax_platforms") or "").split(",")]
    if (any(asked) and NAME not in asked) or xla_client.pjrt_plugin_loaded(NAME):
        return
    if (why := unsupported({"jax": jax_version, "jaxlib": jaxlib_version})) is not None:
        LOG.warning(why)
        return
    try:
        path = library_path()
    except HloError as error:
        if NAME in asked:
            raise
        LOG.warning("the JAX backend hloom is not available: %s", error)
        return
    if NAME in asked and "cpu" not in asked:
        # JAX itself puts the arguments of callbacks, and constants of tracing, on devices("cpu").
        jax.config.update("jax_platforms", ",".join([*asked, "cpu"]))
    start()
    if isinstance(known := getattr(xla_bridge, "_nonexperimental_plugins", None), set):
        known.add(NAME)  # no warning at every start
    xla_bridge.register_plugin(NAME, priority=PRIORITY, library_path=path, options=client_options)


def client_options() -> dict[str, Any]:
    """How a client is made: see the table of options in the README of this room."""
    options: dict[str, Any] = {"cpu_device_count": device_count()}
    if (given := os.environ.get("HLOOM_ASYNCHRONOUS")) is not None:
        options["asynchronous"] = given.strip().lower() not in ("0", "false", "no", "off")
    return options


def device_count() -> int:
    """What the environment asks for, else JAX's own settings, else 1."""
    if given := os.environ.get(DEVICES):
        return int(given)
    configured = _configured("jax_num_cpu_devices")
    if isinstance(configured, int) and configured > 0:
        return configured
    found = _XLA_DEVICES.findall(os.environ.get("XLA_FLAGS", ""))
    return int(found[-1]) if found else 1


def _configured(name: str) -> Any:
    """A setting of JAX."""
    import jax

    return jax.config.values.get(name)
