"""A package for Go: cgo around the library, whose arrays are slices."""

from __future__ import annotations

from hloom.aot.languages.elements import elements, identifiers
from hloom.aot.reading import Array, Function

WORDS = frozenset(
    "break case chan const continue default defer else fallthrough for func go goto if import "
    "interface map package range return select struct switch type var C unsafe fmt workspace "
    "status check address error string len nil int byte uintptr true false".split()
)
_C_TYPES = {f"{s}{b}": f"{'u' if s == 'u' else ''}int{b}_t" for s in "us" for b in (8, 16, 32, 64)}
_C_TYPES |= {"f32": "float", "f64": "double"}

_PACKAGE = """// Package {name} is a C library made by hloom.
//
// Any number of goroutines may call at once, each with outputs and a Workspace of its own.
package {name}

/*
#cgo CFLAGS: -I${{SRCDIR}}/../include
#cgo LDFLAGS: {link}
#include "{header}"

// One pointer for each array: cgo passes no tables of Go's pointers.
static int hloom_go_call({c_parameters}void *workspace) {{
  const void *inputs[] = {{{sources}}};
  void *outputs[] = {{{targets}}};
  return {name}(inputs, outputs, workspace);
}}
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// WorkspaceBytes is how much memory a call works in.
const WorkspaceBytes = {bytes}

// Workspace is memory that calls work in; it keeps nothing between them.
type Workspace struct {{
	memory []byte
	begin  unsafe.Pointer
}}

// NewWorkspace has memory for one call at a time.
func NewWorkspace() *Workspace {{
	w := &Workspace{{memory: make([]byte, WorkspaceBytes+{alignment})}}
	past := uintptr(unsafe.Pointer(&w.memory[0])) % {alignment}
	w.begin = unsafe.Pointer(&w.memory[({alignment}-past)%{alignment}])
	return w
}}

// Status is what the library returned.
type Status int

func (s Status) Error() string {{
	switch s {{
{errors}	}}
	return fmt.Sprintf("the program failed with status %d", int(s))
}}

func check(name string, expected, actual int) error {{
	if expected != actual {{
		return fmt.Errorf("%s has %d elements, %d are needed", name, actual, expected)
	}}
	return nil
}}

// Call runs the program.
{comments}
func Call({parameters}workspace *Workspace) error {{
{checks}	status := C.hloom_go_call({arguments}workspace.begin)
	if status != 0 {{
		return Status(status)
	}}
	return nil
}}
"""


def files(f: Function, header: str, library: str) -> dict[str, str]:
    """The package's files, by name."""
    # A shared library is looked for where it stands now; an archive becomes a part of the program.
    archive = library.endswith(".a")
    link = (
        f"${{SRCDIR}}/../lib/{library} -lm"
        if archive
        else f"-L${{SRCDIR}}/../lib -l{f.name} -Wl,-rpath,${{SRCDIR}}/../lib -lm"
    )
    return {"go.mod": f"module {f.name}\n\ngo 1.19\n", f"{f.name}.go": _source(f, header, link)}


def _type(a: Array) -> str:
    kind, _ = elements(a)
    return {"f": "float", "s": "int", "u": "uint"}[kind[0]] + kind[1:]


def _source(f: Function, header: str, link: str) -> str:
    arrays = [*f.inputs, *f.outputs]
    wanted = [a.name for a in f.inputs]
    wanted += [f"{a.name}_out" if a.name in wanted else a.name for a in f.outputs]
    names = identifiers(wanted, WORDS)
    c_names = [f"p{k}" for k in range(len(arrays))]
    c_parameters, arguments, checks = "", "", ""
    for k, (a, name, c_name) in enumerate(zip(arrays, names, c_names)):
        kind, count = elements(a)
        c_parameters += f"{'const ' if k < len(f.inputs) else ''}{_C_TYPES[kind]} *{c_name}, "
        # Arrays without elements may be nil.
        pointer = f"(*C.{_C_TYPES[kind]})(unsafe.Pointer(&{name}[0]))" if count else "nil"
        arguments += f"{pointer}, "
        checks += f'\tif err := check("{name}", {count}, len({name})); err != nil {{\n'
        checks += "\t\treturn err\n\t}\n"
    comments = [
        f"//   - {name}: {a.shape.text}, {'input' if k < len(f.inputs) else 'output'}"
        + (f", may be {a.in_place}" if a.in_place and k >= len(f.inputs) else "")
        for k, (a, name) in enumerate(zip(arrays, names))
    ]
    return _PACKAGE.format(
        name=f.name,
        link=link,
        header=header,
        c_parameters=c_parameters,
        sources=", ".join(c_names[: len(f.inputs)]) or "0",
        targets=", ".join(c_names[len(f.inputs) :]) or "0",
        bytes=f.workspace_bytes,
        alignment=f.workspace_alignment,
        errors="".join([f'\tcase {s}:\n\t\treturn "{words}"\n' for s, words in f.errors.items()]),
        comments="\n".join(comments) or "//",
        parameters="".join([f"{name} []{_type(a)}, " for a, name in zip(arrays, names)]),
        checks=checks,
        arguments=arguments,
    )
