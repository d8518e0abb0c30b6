"""`hloom package libmodel.a --header model.h -o model-1.0`: a library as build systems look for it.

    include/model.h
    lib/libmodel.a, lib/cmake/model/model-config.cmake, lib/pkgconfig/model.pc
    rust/, go/, java/, javascript/      where they are asked for

All names inside are relative to the files themselves, so that the folder may be moved, or copied
over a prefix such as /usr/local.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hloom.aot.kinds import kind_of
from hloom.aot.languages import go, java, javascript, rust
from hloom.aot.reading import Function, functions
from hloom.api import UsageError, did_you_mean

LANGUAGES = ("rust", "go", "java", "javascript")

_CONFIG = """# {name}, a C library made by hloom: find_package({name}), then target_link_libraries(... {name}::{name}).
get_filename_component(_{name}_prefix "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
if(NOT TARGET {name}::{name})
  add_library({name}::{name} {kind} IMPORTED)
  set_target_properties({name}::{name} PROPERTIES
    {place} "${{_{name}_prefix}}/lib/{file}"
    INTERFACE_INCLUDE_DIRECTORIES "${{_{name}_prefix}}/include")
  if(UNIX)
    set_property(TARGET {name}::{name} PROPERTY INTERFACE_LINK_LIBRARIES m)
  endif()
endif()
unset(_{name}_prefix)
"""  # noqa: E501
_VERSION = """set(PACKAGE_VERSION "{version}")
if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION STREQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
"""
_PKG_CONFIG = """prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib
includedir=${{prefix}}/include

Name: {name}
Description: {name}, a program compiled by hloom
Version: {version}
Cflags: -I${{includedir}}
Libs: {libs} -lm
"""


def package(
    library: str | Path,
    header: str | Path,
    folder: str | Path,
    languages: Sequence[str] = (),
    version: str = "1.0.0",
) -> list[Path]:
    """Write the folder; the files that were written, the library's copy among them.

    `UsageError` for a library that a language cannot link, a language that is not known.
    """
    library, header, folder = Path(library), Path(header), Path(folder)
    declared = functions(header)
    for language in languages:
        if language not in LANGUAGES:
            raise UsageError(
                f"no language {language!r}",
                rule="library-language",
                hint=did_you_mean(language, LANGUAGES),
            )
    if not library.is_file():
        raise UsageError(f"cannot read {library}: no such file", rule="library-file")
    _check_kind(library, languages)
    if languages and len(declared) > 1:
        names = ", ".join([f.name for f in declared])
        raise UsageError(
            f"{header.name} declares several functions: {names}",
            rule="library-language",
            hint="sources for other languages are written for libraries of one function",
        )
    name = library.name.split(".")[0].removeprefix("lib")
    texts = {} if library.suffix == ".wasm" else _of_build_systems(name, library.name, version)
    for language in languages:
        files = _SOURCES[language](declared[0], header.name, library.name, version)
        texts |= {f"{language}/{file}": text for file, text in files.items()}
    written = [folder / "include" / header.name, folder / "lib" / library.name]
    try:
        for path in written:
            path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(header, written[0])
        shutil.copyfile(library, written[1])
        for file, text in texts.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}") from None
    return written


_SOURCES: Mapping[str, Callable[[Function, str, str, str], dict[str, str]]] = {
    "rust": lambda f, header, library, version: rust.files(f, library, version),
    "go": lambda f, header, library, version: go.files(f, header, library),
    "java": lambda f, header, library, version: java.files(f),
    "javascript": lambda f, header, library, version: javascript.files(f, library),
}
_TAKEN = {
    "rust": (".a", ".lib", ".so", ".dylib"),
    "go": (".a", ".so", ".dylib"),
    "java": (".so", ".dylib"),
    "javascript": (".wasm",),
}
"""The libraries that a language's sources link."""


def _check_kind(library: Path, languages: Sequence[str]) -> None:
    if not kind_of(library) or library.suffix == ".dll":
        raise UsageError(
            f"{library.name} is no library that programs link",
            rule="library-file",
            hint="on Windows they link the .lib" if library.suffix == ".dll" else None,
        )
    for language in languages:
        if library.suffix not in _TAKEN[language]:
            raise UsageError(
                f"{language} does not link {library.name}",
                rule="library-language",
                hint=f"it takes {', '.join(_TAKEN[language])}: hloom compile -o writes them",
            )


def _of_build_systems(name: str, file: str, version: str) -> dict[str, str]:
    kind = kind_of(Path(file))
    target = {"shared": "SHARED", "archive": "STATIC", "object": "OBJECT"}[kind]
    place = "IMPORTED_OBJECTS" if kind == "object" else "IMPORTED_LOCATION"
    by_name = file in (f"lib{name}.so", f"lib{name}.a", f"lib{name}.dylib")
    libs = f"-L${{libdir}} -l{name}" if by_name else f"${{libdir}}/{file}"
    config = _CONFIG.format(name=name, kind=target, place=place, file=file)
    return {
        f"lib/cmake/{name}/{name}-config.cmake": config,
        f"lib/cmake/{name}/{name}-config-version.cmake": _VERSION.format(version=version),
        f"lib/pkgconfig/{name}.pc": _PKG_CONFIG.format(name=name, version=version, libs=libs),
    }
