"""Partitioned programs: what XLA:CPU computes on eight devices against `evaluate_lockstep`."""

import jax
import numpy as np

import hloom
from tests.peer.programs.devices import put


def check_lockstep(c, program) -> None:
    """`c` is the `Check`; the compiled module of a partitioned program runs as all its devices."""
    specs, whole = program.arguments
    given = put(whole, specs)
    lowered = jax.jit(program.function, keep_unused=True).lower(*given)
    compiled = lowered.compile()
    results = [shards(x) for x in jax.tree.leaves(compiled(*given))]
    c.languages("lowered", lowered.compiler_ir("hlo").as_hlo_module())
    module = c.languages("compiled", compiled.runtime_executable().hlo_modules()[0])
    if module is None:
        return
    inputs = [shards(x) for x in given]
    count = len(jax.devices())
    arguments = [[piece[k] for piece in inputs] for k in range(count)]
    expected = [[piece[k] for piece in results] for k in range(count)]
    c.stage("compiled lockstep", agrees, module, arguments, expected, program.slack)


def shards(array) -> list[np.ndarray]:
    """What each device holds, in the order of the device numbers."""
    found = sorted(array.addressable_shards, key=lambda s: s.device.id)
    return [np.asarray(s.data) for s in found]


def agrees(module, arguments, expected, slack) -> str:
    from tests.peer.programs.check import all_agree, flat

    if module.num_partitions != len(arguments):
        return f"{module.num_partitions} partitions, not {len(arguments)}"
    ours = hloom.evaluate_lockstep(module, arguments)
    found = [all_agree(flat(a), b, slack) for a, b in zip(ours, expected, strict=True)]
    return "; ".join(f"device {k}: {f}" for k, f in enumerate(found) if f)[:600]
