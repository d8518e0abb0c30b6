"""Machine code of kernels, kept from one run of tests to the next (`make test`, `make guard`).

Half of the processor time of a test that compiles is LLVM's, and most kernels are compiled again
in each run: with guards and without, before a change and after it. Where HLOOM_TEST_OBJECTS names
a folder, programs find their kernels' code there as they do in the program cache: by the text that
LLVM is given and what else decides its code. Programs themselves are made anew, and tests that
turn the program cache on or watch what LLVM is given are left alone. Folders are named by the
sources that drive LLVM: where these change, nothing old is taken.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from hloom.codegen import llvm
from hloom.codegen.llvm import compile as llvm_compile
from hloom.codegen.llvm.compile import CodeCompiler, Objects
from hloom.runtime.cache import ProgramCache
from hloom.targets.cpu import target

LIMIT_BYTES = 1 << 30


def keep_objects(folder: str) -> None:
    """Let all programs of the CPU that this process compiles share kernels' code in a folder."""
    sources = sorted(Path(llvm.__file__).parent.glob("*.py"))
    content = b"".join([source.read_bytes() for source in sources])
    place = Path(folder) / sha256(content).hexdigest()[:16]
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    objects = ProgramCache(place, LIMIT_BYTES).objects
    given = llvm_compile.object_bytes

    def compiler(*arguments, object_cache: Objects | None = None, **named) -> CodeCompiler:
        is_about_caches = os.environ.get("HLOOM_CACHE") != "0"
        is_watched = llvm_compile.object_bytes is not given
        kept = object_cache if is_about_caches or is_watched else objects
        return CodeCompiler(*arguments, object_cache=kept, **named)

    target.CodeCompiler = compiler
