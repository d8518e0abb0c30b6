"""Ctrl-C ends a long call of LLVM at once, and the process that ends then is not crashed by it."""

import subprocess
import sys
import threading

import pytest

from hloom.codegen.llvm.interrupt import interruptibly


def test_what_a_call_returns_and_raises():
    assert interruptibly(lambda: b"code") == b"code"
    with pytest.raises(StopIteration):
        interruptibly(lambda: next(iter(())))


def test_calls_run_beside_the_main_thread_only():
    names = []

    def call() -> bytes:
        names.append(threading.current_thread().name)
        return b""

    interruptibly(call)
    other = threading.Thread(target=lambda: interruptibly(call), name="mine")
    other.start()
    other.join()
    assert names == ["hloom-llvm", "mine"]


# One function that keeps LLVM busy for seconds, and a signal in the midst of it.
LONG = """
import os, signal, sys, threading, time
import hloom.codegen.llvm.compile as c
from hloom.codegen.llvm.machine import Machine
lines = [f"  %v{k} = fmul <16 x float> %v{k - 1}, %v{max(k - 97, 0)}" for k in range(1, 30000)]
text = "\\n".join(["define void @f(ptr %p) {", "  %v0 = load <16 x float>, ptr %p", *lines,
                  "  store <16 x float> %v29999, ptr %p", "  ret void", "}"])
began, ended = threading.Event(), threading.Event()
real = c.object_bytes
def noted(*arguments):
    began.set()
    code = real(*arguments)
    ended.set()
    return code
c.object_bytes = noted
def interrupt():
    began.wait()
    time.sleep(0.6)  # parsing the text is Python's
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
machine = Machine.host()
compiler = c.CodeCompiler(machine)
compiler.add("f", text)
threading.Thread(target=interrupt).start()
try:
    compiler.objects()
    print("done first")
except KeyboardInterrupt:
    print("LLVM had ended" if ended.is_set() else "LLVM was at work")
sys.exit(3)
"""


def test_an_interrupt_comes_at_once_and_the_end_is_clean():
    run = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, timeout=120)
    assert run.returncode == 3, run.stderr
    assert run.stdout.strip() == "LLVM was at work"
