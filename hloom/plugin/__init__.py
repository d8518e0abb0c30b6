"""hloom as a backend of JAX: `JAX_PLATFORMS=hloom python train.py`.

JAX finds this package by its entry point (group `jax_plugins`) and calls `initialize`, in every
process that uses JAX: it imports nothing but what registering takes.
"""


def initialize() -> None:
    """Make the backend `hloom` known to JAX."""
    from hloom.plugin.registration import register

    register()
