"""A crate: one safe function around the library's, whose arrays are slices."""

from __future__ import annotations

from hloom.aot.languages.elements import elements, identifiers
from hloom.aot.reading import Array, Function

WORDS = frozenset(
    "as async await break const continue crate dyn else enum extern false fn for gen if impl "
    "in let loop match mod move mut pub ref return self static struct super trait true try "
    "type unsafe use where while abstract become box do final macro override priv typeof "
    "unsized virtual yield Self workspace status inputs outputs check".split()
)

_CARGO = """[package]
name = "{name}"
version = "{version}"
edition = "2021"
links = "{name}"

[lib]
path = "lib.rs"
"""
_BUILD = """fn main() {{
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    println!("cargo:rustc-link-search=native={{root}}/../lib");
    println!("cargo:rustc-link-lib={kind}={name}");
    println!("cargo:rustc-link-lib=m");
    println!("cargo:rerun-if-changed={{root}}/../lib/{file}");
}}
"""
_LIB = """//! {title}, a C library made by hloom.
//!
//! Any number of threads may call at once, each with outputs and a `Workspace` of its own.
#![allow(non_snake_case, non_upper_case_globals, clippy::too_many_arguments)]

use std::alloc::{{alloc_zeroed, dealloc, handle_alloc_error, Layout}};
use std::os::raw::{{c_int, c_void}};

extern "C" {{
    #[link_name = "{name}"]
    fn library(
        inputs: *const *const c_void,
        outputs: *const *mut c_void,
        workspace: *mut c_void,
    ) -> c_int;
}}

/// Why a call did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {{
    /// An array of this name has another number of elements than it must have.
    Length {{ name: &'static str, expected: usize, actual: usize }},
    /// What the library returned.
    Status(i32),
}}

impl std::fmt::Display for Error {{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {{
        match *self {{
            Error::Length {{ name, expected, actual }} => {{
                write!(f, "{{name}} has {{actual}} elements, {{expected}} are needed")
            }}
{errors}            Error::Status(status) => write!(f, "the program failed with status {{status}}"),
        }}
    }}
}}

impl std::error::Error for Error {{}}

/// Memory that calls work in; it keeps nothing between them.
pub struct Workspace(*mut u8);

unsafe impl Send for Workspace {{}}

impl Workspace {{
    pub const BYTES: usize = {bytes};
    const LAYOUT: Layout = match Layout::from_size_align({room}, {alignment}) {{
        Ok(layout) => layout,
        Err(_) => panic!(),
    }};

    pub fn new() -> Self {{
        let memory = unsafe {{ alloc_zeroed(Self::LAYOUT) }};
        if memory.is_null() {{
            handle_alloc_error(Self::LAYOUT);
        }}
        Workspace(memory)
    }}
}}

impl Default for Workspace {{
    fn default() -> Self {{
        Self::new()
    }}
}}

impl Drop for Workspace {{
    fn drop(&mut self) {{
        unsafe {{ dealloc(self.0, Self::LAYOUT) }}
    }}
}}

fn check(name: &'static str, expected: usize, actual: usize) -> Result<(), Error> {{
    if expected == actual {{
        return Ok(());
    }}
    Err(Error::Length {{ name, expected, actual }})
}}

{constants}
{comments}
pub fn call({parameters}) -> Result<(), Error> {{
{checks}    let inputs: [*const c_void; {input_count}] = [{sources}];
    let outputs: [*mut c_void; {output_count}] = [{targets}];
    // SAFETY: every pointer has as many bytes behind it as the library's header says.
    let status = unsafe {{ library(inputs.as_ptr(), outputs.as_ptr(), workspace.0.cast()) }};
    if status == 0 {{
        Ok(())
    }} else {{
        Err(Error::Status(status))
    }}
}}
"""


def files(f: Function, library: str, version: str) -> dict[str, str]:
    """The crate's files, by name."""
    kind = "static" if library.endswith(".a") else "dylib"
    return {
        "Cargo.toml": _CARGO.format(name=f.name, version=version),
        "build.rs": _BUILD.format(kind=kind, name=f.name, file=library),
        "lib.rs": _lib(f),
    }


def _type(a: Array) -> str:
    kind, _ = elements(a)
    return f"i{kind[1:]}" if kind[0] == "s" else kind


def _lib(f: Function) -> str:
    """An input that may be changed in place is one parameter: what goes in, and comes back."""
    back = {a.in_place: a for a in f.outputs if a.in_place is not None}
    fresh = [a for a in f.outputs if a.in_place is None]
    arrays = [*f.inputs, *fresh]
    names = dict(zip([id(a) for a in arrays], identifiers([a.name for a in arrays], WORDS)))
    for a in f.outputs:
        if a.in_place is not None:
            source = next(b for b in f.inputs if b.name == a.in_place)
            names[id(a)] = names[id(source)]
    parameters, comments = [], []
    for a in arrays:
        is_written = a in fresh or a.name in back
        mutable = "mut " if is_written else ""
        parameters.append(f"{names[id(a)]}: &{mutable}[{_type(a)}]")
        what = "output" if a in fresh else f"in place, comes back as {back[a.name].name}" if (
            a.name in back) else "input"  # fmt: skip
        comments.append(f"/// * `{names[id(a)]}`: {a.shape.text}, {what}")
    checks = [
        f'    check("{a.name}", {elements(a).count}, {names[id(a)]}.len())?;\n' for a in arrays
    ]
    return _LIB.format(
        title=f.name,
        name=f.name,
        errors="".join(
            [
                f'            Error::Status({status}) => write!(f, "{words}"),\n'
                for status, words in f.errors.items()
            ]
        ),
        bytes=f.workspace_bytes,
        room=max(f.workspace_bytes, 1),
        alignment=f.workspace_alignment,
        constants="".join(
            [
                f"pub const {names[id(a)]}_dims: [usize; {len(a.shape.dims)}] ="
                f" {list(a.shape.dims)};\n"
                for a in arrays
            ]
        ),
        comments="\n".join(["/// Runs the program.", "///", *comments]),
        parameters=", ".join([*parameters, "workspace: &mut Workspace"]),
        checks="".join(checks),
        input_count=len(f.inputs),
        output_count=len(f.outputs),
        sources=", ".join([f"{names[id(a)]}.as_ptr().cast()" for a in f.inputs]),
        targets=", ".join([f"{names[id(a)]}.as_mut_ptr().cast()" for a in f.outputs]),
    )
