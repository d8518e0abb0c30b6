"""Compares drawn collectives on 4 CPU devices of XLA with the lockstep run; prints what differs.

A program of its own, because the number of devices is fixed when JAX starts. Arguments: opcode,
first and last seed.
"""

import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import _hlo, xla_client
from jaxlib._jax import mlir

import hloom.ir  # noqa: F401
from hloom.interp import draw_instance, evaluate_lockstep, random_arguments
from hloom.ir.text import show_module

jax.config.update("jax_enable_x64", True)
DEVICES = jax.devices("cpu")


def run_on_xla(text, arguments, replicas, partitions):
    """The results of each device for its own arguments."""
    count = replicas * partitions
    module = _hlo.hlo_module_from_text(text)
    program = mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = replicas, partitions
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = replicas, partitions
    build.use_spmd_partitioning = partitions > 1
    numbers = np.arange(count).reshape(replicas, partitions)
    options.device_assignment = xla_client.DeviceAssignment.create(numbers)
    devices = DEVICES[:count]
    compiled = DEVICES[0].client.compile_and_load(
        program, xla_client.DeviceList(tuple(devices)), options
    )
    sharding = NamedSharding(Mesh(np.array(devices), ("d",)), PartitionSpec("d"))
    inputs = []
    for pieces in zip(*arguments):
        shards = [jax.device_put(x, device) for x, device in zip(pieces, devices)]
        first = pieces[0].shape
        whole = (first[0] * count, *first[1:])
        inputs.append(jax.make_array_from_single_device_arrays(whole, sharding, shards))
    results = compiled.execute_sharded(inputs).disassemble_into_single_device_arrays()
    return [[np.asarray(x) for x in per_device] for per_device in zip(*results)]


def flat(literal):
    return [x for e in literal.elements for x in flat(e)] if literal.is_tuple else [literal.array]


def compare(opcode, seed):
    """Whether both agree; None where XLA does not run the program."""
    module = draw_instance(opcode, seed)
    count = module.replica_count * module.num_partitions
    arguments = [[x.array for x in random_arguments(module, seed + d)] for d in range(count)]
    several = len(arguments[0]) > 1
    if several or any(
        a.ndim == 0 or a.dtype.name.lstrip("u") in ("int2", "int4") for a in arguments[0]
    ):
        return None
    text = show_module(module)
    try:
        theirs = run_on_xla(text, arguments, module.replica_count, module.num_partitions)
    except jax.errors.JaxRuntimeError:
        return None
    ours = [flat(r) for r in evaluate_lockstep(module, arguments)]
    if agree(ours, theirs):
        return True
    print("DIFFERS", opcode, seed, text, ours, theirs)
    return False


def agree(ours, theirs):
    return all(
        np.allclose(a.astype(complex), b.astype(complex), 3e-2, 1e-3, equal_nan=True)
        for mine, other in zip(ours, theirs, strict=True)
        for a, b in zip(mine, other, strict=True)
    )


if __name__ == "__main__":
    outcomes = [compare(sys.argv[1], k) for k in range(int(sys.argv[2]), int(sys.argv[3]))]
    print("compared", outcomes.count(True), "different", outcomes.count(False))
