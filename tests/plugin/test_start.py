"""What a process sees as hloom starts in it: no warnings, no changed settings, no output."""

import importlib.util

import pytest

from tests.plugin.child import run_python

if importlib.util.find_spec("jax") is None:
    pytest.skip("JAX is not installed (make setup)", allow_module_level=True)

COUNTS = (
    'print(len(jax.devices("hloom")), len(jax.devices("cpu")), jax.devices()[0], '
    '"hloom" in jax.devices()[0].client.platform_version)'
)


@pytest.mark.slow
def test_settings_stay_and_nothing_is_said():
    code = f"""
import warnings
warnings.simplefilter("error")
import jax
before = dict(jax.config.values)
print(jax.jit(lambda x: x + 1)(1))
{COUNTS}
assert jax.config.values == before
from jax.extend.backend import clear_backends
clear_backends()
jax.config.update("jax_num_cpu_devices", 3)
{COUNTS}
print(jax.jit(lambda x: jax.pure_callback(lambda a: a, x, x))(1))
"""
    done = run_python(code, HLOOM_NUM_CPU_DEVICES="", PYTHONWARNINGS="error")
    told = ["2", "1 1 cpu:0 True", "3 3 cpu:0 True", "1"]
    assert (done.stdout.splitlines(), done.stderr) == (told, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("platforms", "told"),
    [
        ("hloom,cpu", "2 1 cpu:0 True"),
        ("cpu,hloom", "2 1 cpu:0 False"),
        (" ", "2 1 cpu:0 False"),
    ],
)
def test_platforms_that_are_asked_for(platforms, told):
    done = run_python(f"import jax; {COUNTS}", 2, JAX_PLATFORMS=platforms.strip())
    assert done.stdout.strip() == told, done.stderr


@pytest.mark.slow
def test_functions_of_the_exit_run_by_hand():
    code = """
import atexit
import jax
f = jax.jit(lambda x: x * 2)
x = f(1)
atexit._run_exitfuncs()
print(f(x), jax.jit(lambda x: x * 3)(1), x)
"""
    done = run_python(code)
    assert (done.stdout, done.stderr) == ("4 3 2\n", "")
