"""Random programs with random shardings; partitioned they must compute what the whole one does.

python -m tests.fuzz.partition_programs --first 0 --count 500 [--native]
"""

import argparse
import sys
import time
import traceback

import numpy as np

import hloom
from hloom.interp.lockstep import evaluate_lockstep
from hloom.ir.values.sharding_data import join_array, split_array
from tests.fuzz import partition_sketch_calls, partition_sketch_ops  # noqa: F401  kinds of steps
from tests.fuzz.partition_sketch import Sketch


def split_arguments(module, shardings, arguments, count: int) -> list[list]:
    """What each device is handed."""
    parts = [split_array(np.asarray(a.array), s, count) for s, a in zip(shardings, arguments)]
    return [[p[d] for p in parts] for d in range(count)]


def joined_results(shapes, sharding, per_device):
    """Whole arrays of the elements that devices return."""
    found = []
    for k, shape in enumerate(shapes):
        parts = [np.asarray(r[k]) for r in per_device]
        found.append(join_array(parts, sharding.elements[k], shape.dims))
    return found


def check(seed: int, native: bool = False) -> None:
    """Partition one program, every other one after propagation (of which every other one after
    refinement), and compare."""
    module = Sketch(seed).module()
    hloom.verify(module)
    shapes = list(module.entry.root.shape.leaves())
    arguments = hloom.random_arguments(module, seed=seed)
    expected = [np.asarray(x.array) for x in hloom.evaluate(module, *arguments).elements]
    if seed % 4 == 3:
        hloom.pass_named("sharding-refinement").run(module)
    if seed % 2:
        hloom.pass_named("sharding-propagation").run(module)
        hloom.verify(module)
    hloom.pass_named("spmd-partitioner").run(module)
    hloom.verify(module)
    count = module.num_partitions
    given = split_arguments(module, module.spmd_parameters_shardings, arguments, count)
    if native:
        results = [list(r) for r in hloom.compile(module).run_devices(given)]
    else:
        results = [
            [np.asarray(x.array) for x in r.elements] for r in evaluate_lockstep(module, given)
        ]
    found = joined_results(shapes, module.spmd_output_sharding, results)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
        if not np.allclose(a, b, rtol=1e-4, atol=1e-5 * scale, equal_nan=True):
            raise AssertionError(f"seed {seed}: result {k} differs\n{a}\n{b}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--native", action="store_true")
    given = parser.parse_args()
    end, failed, done = time.monotonic() + given.seconds, [], 0
    for seed in range(given.first, given.first + given.count):
        if time.monotonic() > end:
            break
        done += 1
        try:
            check(seed, given.native)
        except Exception as error:
            failed.append(seed)
            last = traceback.extract_tb(error.__traceback__)[-1]
            text = str(error).split("\n")[0][:160]
            place = f"{last.filename.split('/')[-1]}:{last.lineno}"
            print(f"{seed}: {type(error).__name__} {text} ({place})")
    print(f"{done} programs, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
