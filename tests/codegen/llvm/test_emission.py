"""Many threads in LLVM at once: each gets what it would get alone."""

import os
import threading
import time

import pytest

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm import emission
from hloom.codegen.llvm.emission import Turns
from hloom.codegen.llvm.machine import Machine, assembly_text, object_bytes
from tests.codegen.llvm.test_plain_addresses import LOOP, X86

ADDED = """
define <16 x float> @f(<16 x float> %x) {
  %a = fadd <16 x float> %x, %x
  ret <16 x float> %a
}
"""


def all_at_once(calls):
    """What calls return that set out together, each in a thread."""
    found, start = [None] * len(calls), threading.Barrier(len(calls))

    def one(number, call):
        start.wait()
        found[number] = call()

    threads = [threading.Thread(target=one, args=x) for x in enumerate(calls)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    return found


def test_threads_with_and_without_plain_addresses_do_not_disturb_one_another():
    made = {is_plain: object_bytes(LOOP, X86, 2, is_plain) for is_plain in (False, True)}
    assert made[False] != made[True]
    kinds = [n % 2 == 0 for n in range(6)]

    def several(is_plain):
        return [object_bytes(LOOP, X86, 2, is_plain) for _ in range(8)]

    found = all_at_once([lambda p=p: several(p) for p in kinds])
    assert found == [[made[p]] * 8 for p in kinds]


def test_threads_for_several_machines_and_efforts():
    machines = [X86, Machine.of("aarch64-unknown-linux-gnu", "neoverse-n1")]
    asked = [(ADDED, m, level) for m in machines for level in (0, 2)] * 2
    alone = [object_bytes(*a) for a in asked]
    assert all_at_once([lambda a=a: object_bytes(*a) for a in asked]) == alone
    assert "vaddps" in assembly_text(ADDED, X86) and "fadd" in assembly_text(ADDED, machines[1])


def test_two_threads_are_in_llvm_together():
    """Each waits for the other while it is asked for an object, so neither waits for a lock."""
    from hloom.codegen.llvm import machine
    from hloom.codegen.llvm.emission import emitter

    shared = emitter(machine._llvm(), machine._target_machine)
    both, real = threading.Barrier(2), shared._calls.TargetMachineEmitToMemory

    def met(*arguments):
        both.wait(30)
        return real(*arguments)

    shared._calls.TargetMachineEmitToMemory = staticmethod(met)
    try:
        one, other = all_at_once([lambda: object_bytes(ADDED, X86)] * 2)
    finally:
        shared._calls.TargetMachineEmitToMemory = staticmethod(real)
    assert one == other and one


def test_threads_that_come_first_together_share_one(monkeypatch):
    class Slow(emission.Emitter):
        def __init__(self, *given):
            time.sleep(0.05)
            super().__init__(*given)

    from hloom.codegen.llvm import machine

    monkeypatch.setattr(emission, "_emitters", {})
    monkeypatch.setattr(emission, "Emitter", Slow)
    llvm = machine._llvm()
    found = all_at_once([lambda: emission.emitter(llvm, machine._target_machine)] * 4)
    assert len({id(x) for x in found}) == 1


@pytest.mark.parametrize("text", ["define nonsense", "define i64 @f() {\n  ret i32 0\n}"])
def test_what_llvm_says_of_a_wrong_text(text):
    for _ in range(2):
        with pytest.raises(HloError, match=r"LLVM does not accept the text made for it: .+"):
            object_bytes(text, X86)


def test_turns():
    told = []
    turns = Turns(told.append)
    with turns.turn(False), turns.turn(False):
        assert not turns.is_on and told == []
    with turns.turn(True), turns.turn(True):
        assert turns.is_on and told == [True]
        began = threading.Event()
        seen = []

        def other():
            began.set()
            with turns.turn(False):
                seen.append(list(told))

        waiting = threading.Thread(target=other)
        waiting.start()
        began.wait()
        time.sleep(0.05)
        assert seen == []
    waiting.join(60)
    assert seen == [[True, False]] and not turns.is_on


def test_a_fork_gets_its_own():
    """Where another thread holds a machine, or has a turn, its fork waits for neither."""
    from hloom.codegen.llvm import machine
    from hloom.codegen.llvm.emission import emitter

    made = object_bytes(LOOP, X86)
    shared = emitter(machine._llvm(), machine._target_machine)
    with shared.addresses.turn(True):
        child = os.fork()
        if child == 0:
            os._exit(0 if object_bytes(LOOP, X86) == made else 1)
        end = time.monotonic() + 120
        while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
            assert time.monotonic() < end, "the fork waits"
            time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 0
    assert object_bytes(LOOP, X86) == made
