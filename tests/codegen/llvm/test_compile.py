"""Objects by several threads or processes: as by one, and one clear error whatever happens."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm import compile as under_test
from hloom.codegen.llvm import workers
from hloom.codegen.llvm.compile import CodeCompiler, module_text
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.workers import Workers

HOST = Machine.host()
# No symbol of the C library: what the linker gives is not what LLVM folds.
FUNCTION = """define i64 @{name}(i64 %x) nounwind {{
  %a = mul i64 %x, {number}
  %b = add i64 %a, {number}
  ret i64 %b
}}
"""
WRONG = "define i64 @wrong(i64 %x) {\n  ret i64 %y\n}\n"


def functions(count):
    return {f"f{n}": FUNCTION.format(name=f"f{n}", number=n + 3) for n in range(count)}


def compiled(texts, threads=0, crash_notes=None):
    with CodeCompiler(HOST, 1, threads, crash_notes=crash_notes) as code:
        for name, text in texts.items():
            code.add(name, text)
        return code.objects()


class Known:
    """Crash notes that know texts by a part of them, and say what was compiled in this process."""

    def __init__(self, known=""):
        self.known, self.here = known, []

    def is_known(self, text):
        return self.known in text

    @contextmanager
    def noted(self, what, text):
        self.here.append(what)
        yield


def apart(texts):
    """The objects that worker processes make."""
    return compiled(texts, crash_notes=Known())


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(under_test, "BATCH_BYTES", 150)


@pytest.fixture
def pool(monkeypatch):
    """Workers of this test's own."""
    made = Workers()
    monkeypatch.setattr(under_test, "shared_workers", lambda _: made)
    yield made
    made.close()


def until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def ready(pool, count=1):
    """Wait for workers that have said hello."""
    until(lambda: len(pool.processes) >= count)
    return next(iter(pool.processes.values()))


def test_processes_make_the_same_objects(small_batches, pool):
    texts = functions(40)
    alone = compiled(texts)
    assert len(alone) == 20
    pool.start(2)
    ready(pool, 2)
    assert apart(texts) == alone
    assert apart(texts) == alone  # by the same processes
    assert len(pool.processes) == 2


def test_threads_make_the_same_objects(small_batches, pool):
    texts = functions(40)
    assert compiled(texts, 3) == compiled(texts)
    assert compiled(texts, 2) == compiled(texts)
    assert pool.helpers == 3
    assert pool.feeders == 0  # and no process is started


def test_threads_do_take_part(small_batches, pool):
    with CodeCompiler(HOST, 1, 1) as code:
        for name, text in functions(6).items():
            code.add(name, text)
        until(lambda: all(b.is_done for b in code.batches))  # nobody here has compiled any
        assert len(code.batches) == 3
        assert all(o.startswith(b"\x7fELF") for o in code.objects())


def test_alone_no_thread_is_started(pool):
    compiled(functions(3))
    assert pool.helpers == 0


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("notes", [None, Known()])
def test_text_that_is_wrong_is_one_error(small_batches, pool, threads, notes):
    texts = {**functions(8), "wrong": WRONG}
    with pytest.raises(HloError, match="LLVM does not accept"):
        compiled(texts, threads, notes)
    assert compiled(functions(4), threads, notes)  # and goes on
    assert not pool.waiting


def test_a_worker_that_is_killed_is_replaced(small_batches, pool):
    pool.start(1)
    first = ready(pool)
    first.kill()
    assert apart(functions(8)) == compiled(functions(8))
    until(lambda: pool.processes and first.pid not in pool.processes)
    second = ready(pool)
    os.kill(second.pid, signal.SIGSTOP)  # asked for a batch, and does not answer
    with CodeCompiler(HOST, 1, crash_notes=Known()) as code:
        code.add("f", FUNCTION.format(name="f", number=1))
        code._gathered()
        until(lambda: not pool.waiting)
        second.kill()
        assert len(code.objects()) == 1


def test_what_crashes_llvm_is_an_error(small_batches, pool, monkeypatch):
    """A worker that aborts when it sees a certain text stands for a crash of LLVM."""
    crash = (
        "import os, hloom.codegen.llvm.worker as w; real = w.answer\n"
        "def answer(settings, text):\n"
        "    return os.abort() if b'i64 %x, 666' in text else real(settings, text)\n"
        "w.answer = answer; w.main(); os._exit(0)"
    )
    real = subprocess.Popen

    def popen(command, **options):
        return real([sys.executable, "-c", crash], **options)

    monkeypatch.setattr(workers.subprocess, "Popen", popen)
    pool.start(1)
    ready(pool)
    with CodeCompiler(HOST, 1, crash_notes=Known()) as code:
        code.add("poison", FUNCTION.format(name="poison", number=666))
        code._gathered()
        until(lambda: not pool.waiting)
        with pytest.raises(HloError, match=r"worker process that compiled poison \(SIGABRT\)"):
            code.objects()
    assert apart(functions(8)) == compiled(functions(8))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_a_worker_thread_fails_with_is_an_error(small_batches, pool, monkeypatch):
    """A mistake in the thread that feeds a worker reaches whoever waits; later ones go on."""
    real = workers._compiled
    mistakes = [RuntimeError("not foreseen")]

    def mistaken(process, batch):
        if mistakes:
            raise mistakes.pop()
        return real(process, batch)

    monkeypatch.setattr(workers, "_compiled", mistaken)
    pool.start(1)
    first = ready(pool)
    with CodeCompiler(HOST, 1, crash_notes=Known()) as code:
        code.add("f", FUNCTION.format(name="f", number=1))
        code._gathered()
        until(lambda: not pool.waiting)  # the thread has it
        with pytest.raises(HloError, match="not foreseen") as caught:
            code.objects()
    assert caught.value.rule == "llvm-worker"
    until(lambda: pool.feeders == 0)
    assert first.poll() is not None  # its process went with the thread
    assert apart(functions(8)) == compiled(functions(8))
    until(lambda: pool.processes)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_a_thread_fails_with_is_an_error(small_batches, pool, monkeypatch):
    real = under_test.Batch.compile

    def mistaken(batch):
        if threading.current_thread() is not threading.main_thread():
            raise KeyboardInterrupt  # what no handler of mistakes catches
        real(batch)

    with monkeypatch.context() as patch:
        patch.setattr(under_test.Batch, "compile", mistaken)
        with CodeCompiler(HOST, 1, 1) as code:
            code.add("f", FUNCTION.format(name="f", number=1))
            code._gathered()
            until(lambda: not pool.waiting)
            with pytest.raises(HloError, match="KeyboardInterrupt"):
                code.objects()
    assert pool.helpers == 0
    assert compiled(functions(8), 1) == compiled(functions(8))
    assert pool.helpers == 1


@pytest.mark.parametrize("program", ["", "/nowhere/python", "/bin/true", "/bin/echo"])
def test_where_no_worker_can_be_had_the_caller_does_it(small_batches, pool, monkeypatch, program):
    monkeypatch.setattr(sys, "executable", program)
    assert apart(functions(8)) == compiled(functions(8))
    until(lambda: pool.is_broken)
    assert apart(functions(8))


def test_an_interrupted_compilation_leaves_nothing_behind(small_batches, pool, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(under_test.Batch, "compile", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compiled(functions(30), 1)
    assert not pool.waiting
    assert len(compiled(functions(8), 1)) == 4


def test_several_threads_compile_at_once(small_batches, pool):
    wanted = {n: compiled(functions(n), 0) for n in range(10, 16)}
    found = {}

    def one(n):
        found[n] = compiled(functions(n), 2)

    threads = [threading.Thread(target=one, args=(n,)) for n in wanted]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert found == wanted


def test_workers_die_with_the_parent():
    """Even where it is killed and tidies nothing up."""
    program = (
        "import time; from hloom.codegen.llvm.workers import shared_workers\n"
        "w = shared_workers(0)\n"
        "w.start(1)\n"
        "while not w.processes: time.sleep(0.01)\n"
        "print(next(iter(w.processes)), flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    assert is_alive(worker)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: not is_alive(worker))


def is_alive(process_id):
    try:
        with open(f"/proc/{process_id}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_declaration_stands_once():
    a = "declare i32 @g(i32)\ndeclare i32 @b(i32)\ndefine i32 @a(i32 %x) {\n  ret i32 0\n}\n"
    b = "declare i32 @g(i32)\ndefine i32 @b(i32 %x) {\n  ret i32 0\n}\n"
    text = module_text(HOST, [a, b], ["a", "b"])
    assert text.count("declare") == 1
    assert text.count("@b(") == 1


def test_levels_do_not_share_a_batch():
    with CodeCompiler(HOST, 2) as code:
        for name, text in functions(3).items():
            code.add(name, text, 0 if name == "f1" else None)
        assert len(code.objects()) == 3
        assert [b.opt_level for b in code.batches] == [2, 0, 2]


@pytest.mark.parametrize("threads", [0, 1])
def test_what_ended_a_process_is_compiled_in_a_worker(small_batches, pool, threads):
    notes = Known("mul i64 %x, 6\n")  # what f3 does; LLVM is not told its name
    texts = functions(6)
    with CodeCompiler(HOST, 1, threads, crash_notes=notes) as code:
        for name, text in texts.items():
            code.add(name, text)
        assert code.objects() == compiled(texts)
    assert not any("f3" in what for what in notes.here)
    assert pool.processes


class Kept(dict):
    """Objects in memory."""

    def object(self, key):
        return self.get(key)

    def put_object(self, key, content):
        self[key] = content


def test_equal_functions_are_compiled_once_whatever_their_names(monkeypatch):
    monkeypatch.setattr(under_test, "BATCH_BYTES", 1)
    kept, count, texts = Kept(), [], functions(6)
    real = under_test.object_bytes
    monkeypatch.setattr(under_test, "object_bytes", lambda *a: count.append(a) or real(*a))
    other = {f"g{n}": text.replace(f"@f{n}", f"@g{n}") for n, text in enumerate(texts.values())}
    objects = []
    for given in (texts, other, texts):
        with CodeCompiler(HOST, 1, object_cache=kept) as code:
            for name, text in given.items():
                code.add(name, text)
            objects.append(code.objects())
    assert len(count) == len(kept) == 6
    assert objects[0] == objects[2] == compiled(texts, 0)
    assert objects[1] == compiled(other, 0) != objects[0]


def test_what_decides_code_is_in_the_key(monkeypatch):
    kept = Kept()
    for machine, level in ((HOST, 1), (HOST, 2), (HOST.capped("AVX2"), 1)):
        with CodeCompiler(machine, level, object_cache=kept) as code:
            code.add("f0", functions(1)["f0"])
            code.objects()
    assert len(kept) == len({HOST, HOST.capped("AVX2")}) + 1
    monkeypatch.setattr(under_test, "installed_version", lambda _: "another")
    with CodeCompiler(HOST, 1, object_cache=kept) as code:
        code.add("f0", functions(1)["f0"])
        assert code.batches == [] and code.objects()
    assert len(kept) == len({HOST, HOST.capped("AVX2")}) + 2


def test_long_functions_are_found_beside_others(monkeypatch):
    monkeypatch.setattr(under_test, "ALONE_BYTES", 90)
    kept = Kept()
    for names in (["f1", "f2"], ["f2", "f3"]):
        with CodeCompiler(HOST, 1, object_cache=kept) as code:
            for name in names:
                code.add(name, functions(4)[name])
            code.objects()
            found = [b.is_known for b in code.batches]
    assert found == [True, False] and len(kept) == 3


def test_an_object_that_cannot_be_renamed_is_made_anew(monkeypatch):
    kept, texts = Kept(), functions(2)
    monkeypatch.setattr(under_test, "renamed", lambda *_: None)
    with CodeCompiler(HOST, 1, object_cache=kept) as code:
        for name, text in texts.items():
            code.add(name, text)
        [content] = code.objects()
    assert b"f0\0" in content and b"f1\0" in content and not kept


@pytest.mark.parametrize("is_strict", [True, False])
def test_what_fails_is_not_kept(is_strict):
    kept = Kept()
    with CodeCompiler(HOST, 1, is_strict=is_strict, object_cache=kept) as code:
        code.add("wrong", WRONG)
        with pytest.raises(HloError):
            code.objects()
    assert not kept
