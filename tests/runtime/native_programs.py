"""Small objects for the tests of the runtime, made of LLVM IR, and an entry that takes regions.

`REGIONS` holds `main`, which runs a kernel over [0, n) again and again: buffers are the array that
the kernel adds 1 to, and [n, grain, repetitions, serial_ns].
"""

from __future__ import annotations

import ctypes
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from tests.runtime.native_parts import Context, LoadedObjects

KERNEL = """
define void @add_one(ptr %array, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [%begin, %entry], [%next, %loop]
  %place = getelementptr i64, ptr %array, i64 %i
  %old = load i64, ptr %place
  %new = add i64 %old, 1
  store i64 %new, ptr %place
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
REGIONS = """
declare void @hl_parallel_for_ns(ptr, ptr, ptr, i64, i64, i64)
declare void @add_one(ptr, i64, i64)
define i32 @main(ptr %context, ptr %buffers) {
entry:
  %array = load ptr, ptr %buffers
  %second = getelementptr ptr, ptr %buffers, i64 1
  %numbers = load ptr, ptr %second
  %n = load i64, ptr %numbers
  %at1 = getelementptr i64, ptr %numbers, i64 1
  %grain = load i64, ptr %at1
  %at2 = getelementptr i64, ptr %numbers, i64 2
  %times = load i64, ptr %at2
  %at3 = getelementptr i64, ptr %numbers, i64 3
  %ns = load i64, ptr %at3
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  call void @hl_parallel_for_ns(ptr %context, ptr @add_one, ptr %array, i64 %n, i64 %grain, i64 %ns)
  %next = add i64 %i, 1
  %cancel = getelementptr i8, ptr %context, i64 4
  %stop = load atomic i32, ptr %cancel monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  %more = icmp slt i64 %next, %times
  %go = select i1 %stopped, i1 false, i1 %more
  br i1 %go, label %loop, label %done
done:
  %status = zext i1 %stopped to i32
  ret i32 %status
}
"""


@cache
def emit(
    text: str, *, triple: str = "", reloc: str = "pic", model: str = "small", opt: int = 1
) -> bytes:
    """The object that LLVM makes of some IR."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    machine = target.create_target_machine(reloc=reloc, codemodel=model, opt=opt)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return machine.emit_object(module)


def regions() -> LoadedObjects:
    """`main` and its kernel, from two objects."""
    return LoadedObjects({"main": emit(REGIONS), "kernel": emit(KERNEL)})


def pointers(*arrays: np.ndarray) -> ctypes.Array:
    """The array of addresses a program takes."""
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def run_regions(
    context: Context, loaded: LoadedObjects, n: int, grain: int, times: int = 1, ns: int = -1
) -> np.ndarray:
    """The array after `times` regions: `times` everywhere if each chunk was run once."""
    array = np.zeros(n, np.int64)
    numbers = np.array([n, grain, times, ns], np.int64)
    context.execute(loaded.symbol("main"), pointers(array, numbers))
    return array
