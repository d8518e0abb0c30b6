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

from hloom.api import HloError, library_path, set_pjrt_key_values
from hloom.plugin.embedded import start
from hloom.plugin.handlers import listen
from hloom.plugin.lowered_cost import answer_for_lowerings
from hloom.plugin.transformations import listen_for_transformations
from hloom.plugin.versions import unsupported

NAME = "hloom"
PRIORITY = -10
"""Below that of the built-in CPU, 0: the default only where it is asked for."""
DEVICES = "HLOOM_NUM_CPU_DEVICES"
_XLA_DEVICES = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
LOG = logging.getLogger("hloom")


def register() -> None:
    """Register the backend; where that cannot be, say why and leave JAX as it is."""
    from jax._src import xla_bridge
    from jax.version import __version__ as jax_version
    from jaxlib import xla_client
    from jaxlib.version import __version__ as jaxlib_version

    platforms = asked_for()
    if (platforms and NAME not in platforms) or xla_client.pjrt_plugin_loaded(NAME):
        return
    if (why := unsupported({"jax": jax_version, "jaxlib": jaxlib_version})) is not None:
        LOG.warning(why)
        return
    try:
        path = library_path()
    except HloError as error:
        if NAME in platforms:
            raise
        LOG.warning("the JAX backend hloom is not available: %s", error)
        return
    start()
    listen()
    listen_for_transformations()
    answer_for_lowerings()
    if isinstance(known := getattr(xla_bridge, "_nonexperimental_plugins", None), set):
        known.add(NAME)  # no warning at every start
    xla_bridge.register_plugin(NAME, priority=PRIORITY, library_path=path, factory=made_client)


def made_client() -> Any:
    """A client of hloom, with the settings of this moment; JAX asks again if it drops them all.

    JAX puts the arguments of callbacks, and constants of tracing, on devices("cpu"): the built-in
    backend must be there even where JAX_PLATFORMS names hloom alone. Adding it to that setting
    would be seen: tests of JAX fail when a setting is another one after them.
    """
    from jax._src import xla_bridge

    start()
    client = _client_of_processes() or xla_bridge.make_pjrt_c_api_client(NAME, client_options())
    if (platforms := asked_for()) and "cpu" not in platforms:
        xla_bridge._backends["cpu"] = xla_bridge._init_backend("cpu")
    return client


def _client_of_processes() -> Any:
    """The client of one of several processes; None where `jax.distributed` is not initialized.

    A client to which jaxlib gives the coordinator watches all processes through it, for nobody, and
    does so until the process ends: `jax.distributed.shutdown` waits 5 s for that, and there are
    warnings. So it does not know the coordinator, and finds the others through its store here.
    """
    from jax._src import distributed
    from jaxlib import xla_client

    state = distributed.global_state
    if state.client is None:
        return None
    store = state.client
    set_pjrt_key_values(store.key_value_set, store.blocking_key_value_get)
    if not xla_client.pjrt_plugin_initialized(NAME):
        xla_client.initialize_pjrt_plugin(NAME)
    place = {"node_id": state.process_id, "num_nodes": state.num_processes}
    return xla_client.make_c_api_client(NAME, client_options() | place)


def asked_for() -> list[str]:
    """The backends that JAX_PLATFORMS names; none if it is not set."""
    return [
        name.strip() for name in (_configured("jax_platforms") or "").split(",") if name.strip()
    ]


def client_options() -> dict[str, Any]:
    """How a client is made: see the table of options in the README of this room."""
    options: dict[str, Any] = {"cpu_device_count": device_count()}
    if (word := os.environ.get("HLOOM_ASYNCHRONOUS")) is not None:
        options["asynchronous"] = word.strip().lower() not in ("0", "false", "no", "off")
    return options


def device_count() -> int:
    """What the environment asks for, else JAX's own settings, else 1."""
    if word := os.environ.get(DEVICES):
        return int(word)
    configured = _configured("jax_num_cpu_devices")
    if isinstance(configured, int) and configured > 0:
        return configured
    counts = _XLA_DEVICES.findall(os.environ.get("XLA_FLAGS", ""))
    return int(counts[-1]) if counts else 1


def _configured(name: str) -> Any:
    """A setting of JAX."""
    import jax

    return jax.config.values.get(name)
