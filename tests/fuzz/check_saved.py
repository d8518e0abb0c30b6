"""Damaged saved programs and executables: what is done to them, and what loaders make of them.

Damage that a disk or a network does leaves the checksums as they were: every single changed byte
must be refused. Damage under right checksums cannot be told from what was meant, but may not take a
loader out of bounds either: it is loaded and thrown away, and not run, for code is code.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from hloom.base.diagnostics import HloError
from hloom.compiler import compile_module
from hloom.ir.text import parse_module
from hloom.plugin import embedded
from hloom.program.container import Section, opened, sealed
from hloom.program.saved import program_from_bytes, program_to_bytes
from hloom.program.saved_form import HEAD, MAGIC, SECTION, SectionKind
from hloom.runtime import ffi
from hloom.runtime.launch_spec import LaunchSpec
from hloom.runtime.loaded_program import LoadedProgram
from hloom.runtime.native import Pool
from hloom.runtime.saved_executable import executable_from_bytes, executable_to_bytes
from tests.plugin.pjrt_table import Failed, Table

TEXTS = (
    """HloModule elementwise
ENTRY e {
  p = f32[64] parameter(0)
  c = f32[64] constant({NUMBERS})
  ROOT r = f32[64] add(p, c)
}""".replace("NUMBERS", ", ".join(map(str, range(64)))),
    """HloModule several, input_output_alias={ {1}: (1, {}, may-alias) }
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT
}
ENTRY e {
  p = f32[3,50] parameter(0)
  q = f32[7] parameter(1)
  s = f32[3,50] sort(p), dimensions={1}, to_apply=less
  t = f32[50,3] transpose(s), dimensions={1,0}
  n = f32[7] negate(q)
  ROOT r = (f32[50,3], f32[7]) tuple(t, n)
}""",
    """HloModule loop
body {
  c = (s32[], f32[9]) parameter(0)
  n = s32[] get-tuple-element(c), index=0
  v = f32[9] get-tuple-element(c), index=1
  one = s32[] constant(1)
  m = s32[] subtract(n, one)
  w = f32[9] custom-call(v), custom_call_target="Sharding"
  d = f32[9] add(w, w)
  ROOT r = (s32[], f32[9]) tuple(m, d)
}
condition {
  c = (s32[], f32[9]) parameter(0)
  n = s32[] get-tuple-element(c), index=0
  z = s32[] constant(0)
  ROOT p = pred[] compare(n, z), direction=GT
}
ENTRY e {
  n = s32[] parameter(0)
  v = f32[9] parameter(1)
  t = (s32[], f32[9]) tuple(n, v)
  ROOT w = (s32[], f32[9]) while(t), condition=condition, body=body
}""",
    """HloModule routines
ENTRY e {
  a = f32[4,4] parameter(0)
  z = c64[12] parameter(1)
  p = pred[] parameter(2)
  empty = s4[0,3] parameter(3)
  f = c64[12] fft(z), fft_type=FFT, fft_length={12}
  l = f32[4,4] cholesky(a), lower=true
  x = f32[4,4] triangular-solve(l, a), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
  k = (f32[4,2], s32[4,2]) topk(x), k=2, largest=true
  y = f32[4,4] conditional(p, a, x), true_computation={
    ROOT t = f32[4,4] parameter(0)
  }, false_computation={
    t = f32[4,4] parameter(0)
    ROOT n = f32[4,4] sine(t)
  }
  state = u64[2] constant({1, 2})
  r = (u64[2], u32[5]) rng-bit-generator(state), algorithm=rng_philox
  ROOT all = tuple(f, k, y, r, empty)
}""",
    """HloModule devices, replica_count=2
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  p = f32[8] parameter(0)
  r = f32[8] all-reduce(p), replica_groups={{0,1}}, to_apply=sum
  i = u32[] replica-id()
  ROOT t = (f32[8], u32[]) tuple(r, i)
}""",
)
NUMBERS = (0, 1, 2, 7, 8, 63, 64, 255, 4096, -1, -8, 1 << 31, 1 << 32, (1 << 63) - 1, -(1 << 63))


CALLS = """HloModule calls
ENTRY e {
  p = f32[3,2] parameter(0)
  q = s8[5] parameter(1)
  c = (f32[2], (s32[1], f32[])) custom-call(p, q), custom_call_target="kept", \
api_version=API_VERSION_TYPED_FFI, backend_config={name = "a b", of = {deep = {x = 1 : i32}, \
numbers = array<i64: 1, 2, 3>}, rate = 0.5 : f32}
  old = f32[4] custom-call(p), custom_call_target="kept", backend_config="as it was"
  ROOT t = tuple(c, old)
}"""
"""Custom calls, whose handler the C program that loads them has (tests/aot/damaged.c)."""


@cache
def calling_programs() -> tuple[bytes, ...]:
    """Saved programs, one of them with custom calls."""
    ffi.register("kept", lambda call: None)  # compiling loads the program here, too
    program = compile_module(parse_module(CALLS)).program
    return *programs(), program_to_bytes(program, {"name": program.name})


@cache
def programs() -> tuple[bytes, ...]:
    """Saved programs."""
    made = [compile_module(parse_module(text)).program for text in TEXTS]
    return tuple([program_to_bytes(p, {"name": p.name}) for p in made])


@cache
def executables() -> tuple[bytes, ...]:
    """The same with what JAX and the native side ask."""
    launch_spec = LaunchSpec("fingerprint", frozenset())
    return tuple(
        [
            executable_to_bytes(program_from_bytes(data), launch_spec, b"options", b"module")
            for data in programs()
        ]
    )


def loaded_here(data: bytes) -> None:
    """Load a saved program as the compile cache does, its code too."""
    LoadedProgram(program_from_bytes(data), Pool.shared(1))


@cache
def _client() -> tuple[Table, int]:
    table = Table()
    raw, count = table.options(cpu_device_count=8)
    client = table.call("Client_Create", create_options=raw, num_options=count)("client")
    table.held.clear()
    return table, client


@contextmanager
def without_compiler() -> Iterator[None]:
    """The library has no compiler meanwhile, as in a program without Python. JAX's backends, which
    another test may have started in this process, are its compiler otherwise."""
    was_on = embedded.is_on()
    embedded.stop()
    try:
        yield
    finally:
        if was_on:
            embedded.start()


def loaded_natively(data: bytes) -> None:
    """Load a saved executable where there is no compiler. Raises `HloError`."""
    table, client = _client()
    try:
        with without_compiler():
            made = table.call(
                "Executable_DeserializeAndLoad",
                client=client,
                serialized_executable=data,
                serialized_executable_size=len(data),
            )("loaded_executable")
    except Failed as error:
        raise HloError(str(error), rule="saved-program") from None
    finally:
        table.held.clear()
    table.call("LoadedExecutable_Destroy", executable=made)


def unpacked_here(data: bytes | memoryview) -> None:
    """Everything in a saved executable that Python reads of it but JAX's own words."""
    executable_from_bytes(data)


FORMS: dict[str, tuple[Callable[[], tuple[bytes, ...]], Callable[[bytes], None]]] = {
    "program": (programs, loaded_here),
    "executable": (executables, unpacked_here),
    "native": (executables, loaded_natively),
}
"""What is damaged, and who loads it."""


def changes(data: bytes, rng: random.Random) -> Iterator[bytes]:
    """The same with one byte changed, anywhere; without end."""
    wrong = bytearray(data)
    while True:
        at, was = rng.randrange(len(data)), 0
        was = wrong[at]
        wrong[at] = was ^ rng.randrange(1, 256)
        yield bytes(wrong)
        wrong[at] = was


def is_refused(load: Callable[[bytes], None], data: bytes) -> bool:
    """Whether a loader says that these bytes are not what it reads."""
    try:
        load(data)
    except HloError:
        return True
    return False


def resealed(data: bytes, rng: random.Random) -> bytes:
    """The same with something else in it, and the right checksums of that."""
    sections = [(SectionKind(kind), bytes(section)) for kind, section in opened(data)]
    if rng.random() < 0.2:
        return _rearranged(sections, rng)
    at = rng.choice([k for k, (_, section) in enumerate(sections) if section])
    kind, section = sections[at]
    sections[at] = kind, _damaged_section(section, rng)
    return sealed([Section(kind, [section]) for kind, section in sections])


def _rearranged(sections: list[tuple[SectionKind, bytes]], rng: random.Random) -> bytes:
    """Sections where they do not belong, or a frame that says something else, rightly summed."""
    sections, how = list(sections), rng.randrange(6)
    one, other = rng.randrange(len(sections)), rng.randrange(len(sections))
    if how == 0:
        del sections[one]
    elif how == 1:
        sections.insert(one, sections[one])
    elif how == 2:
        a, b = sections[one], sections[other]
        sections[one], sections[other] = (a[0], b[1]), (b[0], a[1])
    elif how == 3:
        kind, foreign = rng.choice([*opened(rng.choice(programs()))])
        sections[one] = SectionKind(kind), bytes(foreign)
    elif how == 4:
        sections[one] = sections[one][0], b""
    sections.sort(key=lambda section: section[0])
    data = sealed([Section(kind, [section]) for kind, section in sections])
    return _other_frame(data, rng) if how == 5 else data


def _other_frame(data: bytes, rng: random.Random) -> bytes:
    """The same with one other number in its head or its rows."""
    frame = bytearray(data[: HEAD.format.size + SECTION.format.size * len(opened(data))])
    place = rng.randrange(len(MAGIC), len(frame) - 8, 4)
    form = rng.choice(("<i", "<q"))
    limit = 1 << (8 * struct.calcsize(form) - 1)
    value = rng.choice([n for n in (*NUMBERS, len(data)) if -limit <= n < limit])
    struct.pack_into(form, frame, place, value)
    head = bytes(frame[: HEAD.format.size - 4])
    crc = zlib.crc32(frame[HEAD.format.size :], zlib.crc32(head))
    return head + crc.to_bytes(4, "little") + bytes(frame[HEAD.format.size :]) + data[len(frame) :]


def _damaged_section(section: bytes, rng: random.Random) -> bytes:
    if section.startswith(MAGIC) and rng.random() < 0.9:
        return resealed(section, rng)
    made = bytearray(section)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(made))
        how = rng.randrange(7)
        if how < 2 and len(made) > 8:
            place &= ~7  # numbers of 64 bits stand so
            struct.pack_into("<q", made, min(place, len(made) - 8), rng.choice(NUMBERS))
        elif how == 2:
            del made[place : place + rng.choice((1, 8, 64, len(made)))]
            made = made or bytearray(1)
        elif how == 3:
            made[place:place] = rng.randbytes(rng.choice((1, 8, 64)))
        elif how == 4 and len(made) > 16:  # what stands somewhere else, a number or a range
            source, size = rng.randrange(len(made) - 16) & ~7, rng.choice((8, 16))
            made[place : place + size] = made[source : source + size]
        elif how == 5 and len(made) > 8:  # moved by a little
            place = min(place & ~7, len(made) - 8)
            number = int.from_bytes(made[place : place + 8], "little", signed=True)
            moved = number + rng.choice((-8, -4, -1, 1, 4, 8, 64))
            struct.pack_into("<Q", made, place, moved & (1 << 64) - 1)
        else:
            made[place] = rng.choice((0, 1, 0x30, 0x39, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(made)
