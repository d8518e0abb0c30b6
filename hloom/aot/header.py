"""The header of a C library: what its function takes and gives, as constants and structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from hloom.aot.names import distinct
from hloom.api import CArray, CInterface, Shape

C_TYPES = {
    "pred": "uint8_t",
    **{f"s{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    "f32": "float",
    "f64": "double",
}
"""Elements as C has them; those that C has not are given as bits, in numbers of their width."""
_BITS = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t", 16: "uint64_t"}


class Entry(Protocol):
    """A function of a library, as the header describes it."""

    @property
    def name(self) -> str: ...
    @property
    def program(self) -> str: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...
    @property
    def interface(self) -> CInterface: ...


class Named(NamedTuple):
    """An input or an output, with its name in C."""

    name: str
    shape: Shape
    size_bytes: int
    alignment: int
    alias: int | None


def _named(name: str, a: CArray) -> Named:
    return Named(name, a.shape, a.size_bytes, a.alignment, a.alias)


def header(
    name: str,
    entries: Sequence[Entry],
    pool: str,
    weights: str,
    before: Sequence[str] = (),
    more: Sequence[str] = (),
) -> str:
    """The text of the header of the library `name`. `weights`: "file" or "memory" where they are
    not in the library, with ", by name" behind where a file has them so; `before`, `more`: lines
    before and behind the functions."""
    guard = f"{name.upper()}_H"
    about = ", ".join([e.program for e in entries]).replace("*/", "* /")
    lines = [
        f"/* {about} as {'C functions' if len(entries) > 1 else 'a C function'}, made by hloom. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
    ]
    if pool == "caller":
        lines += POOL.replace("NAME", name).split("\n")
    if weights:
        others = BY_NAME if weights.endswith("by name") else WEIGHTS
        lines += others.replace("NAME", name).split("\n")
        lines += (FILE if weights.startswith("file") else "").replace("NAME", name).split("\n")
    lines += before
    for entry in entries:
        lines += _entry(name, entry, pool, weights)
    lines += more
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", "#endif", ""])


def _entry(library: str, entry: Entry, pool: str, weights: str) -> list[str]:
    """What is said of one function."""
    name, interface, prefix = entry.name, entry.interface, entry.name.upper()
    arrays_in = [_named(n, a) for n, a in zip(entry.inputs, interface.inputs)]
    arrays_out = [_named(n, a) for n, a in zip(entry.outputs, interface.outputs)]
    lines = [
        f"#define {prefix}_INPUTS {len(arrays_in)}",
        f"#define {prefix}_OUTPUTS {len(arrays_out)}",
        "/* Bytes, and at which multiples of bytes memory begins. */",
        f"#define {prefix}_WORKSPACE_BYTES {interface.workspace_bytes}",
        f"#define {prefix}_WORKSPACE_ALIGNMENT 64",
        "",
    ]
    for what, arrays, others in (
        ("input", arrays_in, arrays_out),
        ("output", arrays_out, arrays_in),
    ):
        for k, a in enumerate(arrays):
            lines += _constants(f"{prefix}_{what.upper()}", k, a)
            if a.alias is not None:
                other = others[a.alias].name
                lines.append(in_place_line(other))
        if arrays:
            lines.append("")
    lines += _function(library, name, prefix, pool, weights)
    return lines + struct(library, name, prefix, entry.inputs, entry.outputs, pool)


def in_place_line(other: str) -> str:
    """Of an array that may be the memory of another one."""
    return f"/* May be the memory of {other}, which is then changed in place. */"


def _constants(prefix: str, number: int, a: Named) -> list[str]:
    dims = a.shape.dims
    own = f"{prefix}_{a.name}"
    lines = [
        f"/* {prefix.rsplit('_', 1)[1].lower()} {number}: {a.shape.text} */",
        f"#define {own} {number}",
        f"#define {own}_BYTES {a.size_bytes}",
        f"#define {own}_ALIGNMENT {a.alignment}",
        f"#define {own}_RANK {len(dims)}",
        f"typedef {element_type(a.shape)} {own}_TYPE;",
    ]
    return lines + [f"#define {own}_DIM{d} {size}" for d, size in enumerate(dims)]


def element_type(shape: Shape) -> str:
    """The C type of an element; complex numbers are two floats, side by side."""
    name = shape.dtype.name
    if name in ("c64", "c128"):
        return "float" if name == "c64" else "double"
    return C_TYPES.get(name) or _BITS[max(shape.dtype.size_bytes, 1)]


_ARRAYS = "const void *const *inputs, void *const *outputs, void *workspace"


def _function(library: str, name: str, prefix: str, pool: str, weights: str) -> list[str]:
    own = pool == "own"
    threads = "Its threads start when they are needed."
    threads = threads if own else "It allocates nothing, starts no thread."
    lines = [
        f"/* One pointer for each input and output; {prefix}_WORKSPACE_BYTES of memory, which may",
        " * be null where that is 0, and keep nothing between calls. Threads may call at once,",
        f" * each with outputs and a workspace of its own. {threads}",
        " * Outputs share no memory with inputs but where it is said above. Returns 0, or a status",
        f" * that {name}_error turns into words: then the outputs hold nothing. */",
        f"int {name}({_ARRAYS});",
    ]
    if pool == "caller":
        lines.append(f"int {name}_on(const {library}_pool *pool, {_ARRAYS});")
    return [*lines, *error_words(name, weights)]


def error_words(name: str, weights: str, *more: str) -> list[str]:
    """What turns a status into words."""
    words = [
        "",
        f"static inline const char *{name}_error(int status) {{",
        '  return status == 0 ? "" : status == 3',
        '      ? "a pointer is null or not aligned" : status == 4',
        '      ? "this processor lacks instructions that the library was compiled for"',
        f'      : status == 10 ? "the workspace is smaller than {name.upper()}_WORKSPACE_BYTES"',
        *more,
    ]
    by_name = weights.endswith("by name")
    others = "this is no safetensors file" if by_name else OTHERS
    if weights:
        words += [
            '      : status == 5 ? "the weights are not loaded"',
            '      : status == 6 ? "the file of the weights cannot be read"',
            f'      : status == 7 ? "{others}"',
        ]
    if by_name:
        words.append('      : status == 9 ? "a tensor of the file is not as the library takes it"')
    return [*words, '      : "the program failed";', "}", ""]


OTHERS = "these are not the weights that the library was made with"
POOL = """/* Threads of the caller. parallel_for calls piece(data, k) once for each k below count,
 * on whatever threads, and returns when all have returned; serial_ns is about what all of them take
 * one after another, so that what is too short to wake anybody can be done at once. */
typedef struct {
  void (*parallel_for)(void *self, void (*piece)(void *data, int64_t k), void *data,
                       int64_t count, int64_t serial_ns);
  void *self;
} NAME_pool;
"""
WEIGHTS = """/* The weights are in a file. This takes memory that holds all of it and stays, at a
 * multiple of 64 bytes; 0, or a status: it is not the file that the library was made with. */
int NAME_set_weights(const void *file, uint64_t bytes);"""
BY_NAME = """/* The weights are in a safetensors file. This takes memory that holds all of it and
 * stays, at a multiple of 64 bytes; 0, or a status, of which NAME_weights_problem tells more. */
int NAME_set_weights(const void *file, uint64_t bytes);"""
FILE = """/* This maps the file; 0, or a status. Before the first call, and never beside one. */
int NAME_load_weights(const char *path);
void NAME_unload_weights(void);
"""


def struct(
    library: str,
    name: str,
    prefix: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    pool: str,
    sizes: Sequence[str] = (),
) -> list[str]:
    """The same with names: one struct of pointers. `sizes`: what a call takes before it."""
    lines = ["/* The same by name. */", "typedef struct {"]
    output_names = [f"{n}_out" if n in inputs else n for n in outputs]
    names = distinct([*inputs, *output_names])
    fields_in = list(zip(names, inputs))
    fields_out = list(zip(names[len(inputs) :], outputs))
    for field, n in fields_in:
        lines.append(f"  const {prefix}_INPUT_{n}_TYPE *{field};")
    for field, n in fields_out:
        lines.append(f"  {prefix}_OUTPUT_{n}_TYPE *{field};")
    debug = f"{library.upper()}_DEBUG"
    lines += [
        "  void *workspace;",
        f"#ifdef {debug}",
        "  uint64_t workspace_bytes; /* how much memory that is: compared before each call */",
        "#endif",
        f"}} {name}_arrays;",
        "",
    ]
    a, inputs_in, outputs_in, threads = [
        f"{n}_" if n == name else n for n in ("a", "inputs", "outputs", "pool")
    ]
    sources = ", ".join([f"{a}->{field}" for field, _ in fields_in]) or "0"
    targets = ", ".join([f"{a}->{field}" for field, _ in fields_out]) or "0"
    parameters = "".join([f"int64_t {s}, " for s in sizes])
    passed = "".join([f"{s}, " for s in sizes])
    forms = [("_call", parameters, name, passed)]
    if pool == "caller":
        on = f"{parameters}const {library}_pool *{threads}, "
        forms.append(("_call_on", on, f"{name}_on", f"{passed}{threads}, "))
    for form, parameter, function, argument in forms:
        lines += [
            f"static inline int {name}{form}({parameter}const {name}_arrays *{a}) {{",
            f"  const void *{inputs_in}[] = {{{sources}}};",
            f"  void *{outputs_in}[] = {{{targets}}};",
            f"#if defined({debug}) && {prefix}_WORKSPACE_BYTES > 0",
            f"  if ({a}->workspace_bytes < {prefix}_WORKSPACE_BYTES) return 10;",
            "#endif",
            f"  return {function}({argument}{inputs_in}, {outputs_in}, {a}->workspace);",
            "}",
            "",
        ]
    return lines
