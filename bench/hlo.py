"""Contests of the HLO library: reading, printing, checking, rewriting, memory, start-up.

Every goal is one the project has set itself; peers are measured when they are installed
(`make setup`) and their rows are only for orientation: XLA's parser is C++.
"""

import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.corpus import CORPUS
from bench.measure import Contestants, contest, rate, seconds
from bench.synthetic import chain_text, module_text

SMALL, LARGE = 10_000, 100_000
EXAMPLES = Path(__file__).parent.parent / "examples"
FOUR_MB = 4_000_000


@cache
def text_of(size: int) -> str:
    """Synthetic text of `size` instructions."""
    return module_text(size)


@cache
def module_of(size: int) -> Any:
    """The same, parsed by hloom."""
    from hloom.ir.text import parse_module

    return parse_module(text_of(size))


def count(size: int) -> int:
    """Instructions that text of `size` really has."""
    return module_of(size).instruction_count


@cache
def peer() -> Any:
    """jaxlib's HLO module bindings, or None where jaxlib is not installed."""
    if find_spec("jaxlib") is None:
        return None
    from jaxlib import _hlo

    return _hlo


def with_peer(ours: Callable[[], float], theirs: Callable[[Any], Callable[[], float]]):
    """hloom, and jaxlib where it is installed; `theirs` makes its measure from the bindings."""
    made: Contestants = {"hloom": ours}
    if peer() is not None:
        made["jaxlib"] = theirs(peer())
    return made


def parsing(size: int) -> Contestants:
    from hloom.ir.text import parse_module

    text, n = text_of(size), count(size)
    return with_peer(
        rate(n, lambda: parse_module(text)),
        lambda hlo: rate(n, lambda: hlo.hlo_module_from_text(text)),
    )


def printing(size: int) -> Contestants:
    from hloom.ir.text import show_module

    module, n = module_of(size), count(size)

    def theirs(hlo: Any) -> Callable[[], float]:
        other = hlo.hlo_module_from_text(text_of(size))
        return rate(n, other.to_string)

    return with_peer(rate(n, lambda: show_module(module)), theirs)


@contest("parse 10k", "instructions/s", at_least=40_000)
def _() -> Contestants:
    """Text to graph, 10,000 instructions with metadata."""
    return parsing(SMALL)


@contest("parse 100k", "instructions/s", at_least=40_000)
def _() -> Contestants:
    """Text to graph, 100,000 instructions with metadata."""
    return parsing(LARGE)


@contest("print 10k", "instructions/s", at_least=40_000)
def _() -> Contestants:
    """Graph to text, 10,000 instructions."""
    return printing(SMALL)


@contest("print 100k", "instructions/s", at_least=40_000)
def _() -> Contestants:
    """Graph to text, 100,000 instructions."""
    return printing(LARGE)


def linearity(work: Callable[[int], object]) -> Contestants:
    """How much more an instruction costs in a module ten times as large; 1 is linear."""
    small, large = seconds(lambda: work(SMALL)), seconds(lambda: work(LARGE))
    factor = count(LARGE) / count(SMALL)
    return {"hloom": lambda: large() / small() / factor}


@contest("parse linearity", "ratio", at_most=1.5)
def _() -> Contestants:
    """Time for an instruction at 100,000 over that at 10,000, when parsing."""
    from hloom.ir.text import parse_module

    return linearity(lambda size: parse_module(text_of(size)))


@contest("print linearity", "ratio", at_most=1.5)
def _() -> Contestants:
    """Time for an instruction at 100,000 over that at 10,000, when printing."""
    from hloom.ir.text import show_module

    return linearity(lambda size: show_module(module_of(size)))


@contest("proto write", "instructions/s")
def _() -> Contestants:
    """Graph to HloModuleProto bytes, 10,000 instructions."""
    from hloom.ir.proto import module_to_bytes

    module, n = module_of(SMALL), count(SMALL)

    def theirs(hlo: Any) -> Callable[[], float]:
        other = hlo.hlo_module_from_text(text_of(SMALL))
        return rate(n, other.as_serialized_hlo_module_proto)

    return with_peer(rate(n, lambda: module_to_bytes(module)), theirs)


@contest("proto read", "instructions/s")
def _() -> Contestants:
    """HloModuleProto bytes to graph, 10,000 instructions."""
    from hloom.ir.proto import module_from_bytes, module_to_bytes

    data, n = module_to_bytes(module_of(SMALL)), count(SMALL)
    return with_peer(
        rate(n, lambda: module_from_bytes(data)),
        lambda hlo: rate(n, lambda: hlo.HloModule.from_serialized_hlo_module_proto(data)),
    )


@contest("verify", "instructions/s")
def _() -> Contestants:
    """Every rule on every instruction, 10,000 instructions."""
    from hloom.ir.verify import verify

    module, n = module_of(SMALL), count(SMALL)
    return {"hloom": rate(n, lambda: verify(module))}


@contest("rewrite", "rules/s", at_least=50_000)
def _() -> Contestants:
    """Algebraic rules to a fixed point on a chain of 20,000 operations that cancel."""
    from hloom.ir.text import parse_module
    from hloom.passes import pass_named

    text, step = chain_text(SMALL), pass_named("algsimp")

    def once() -> float:
        module = parse_module(text)
        start = time.perf_counter()
        result = step.run(module)
        return sum(result.fired.values()) / (time.perf_counter() - start)

    return {"hloom": once}


def fresh(code: str) -> str:
    """What a new interpreter prints when it runs `code`."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


@contest("import hloom", "ms", at_most=150)
def _() -> Contestants:
    """The import statement alone, in a fresh interpreter."""
    clock = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    made: Contestants = {"hloom": lambda: 1000 * float(fresh(clock.format("hloom")))}
    if peer() is not None:
        made["jax"] = lambda: 1000 * float(fresh(clock.format("jax")))
    return made


@contest("import hloom.api", "ms")
def _() -> Contestants:
    """Everything behind the package's names, as the first of them that is used loads it."""
    clock = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    return {"hloom": lambda: 1000 * float(fresh(clock.format("hloom.api")))}


@contest("evaluate", "runs/s", at_least=1)
def _() -> Contestants:
    """The small transformer of examples/ in the interpreter, inputs ready."""
    import hloom

    module = hloom.load(EXAMPLES / "transformer_block.hlo")
    inputs = hloom.random_arguments(module)
    return {"hloom": rate(1, lambda: hloom.evaluate(module, *inputs))}


@contest("load 4 MB", "s", at_most=1.5)
def _() -> Contestants:
    """`hloom.load` of a text file of 4 MB, in a fresh interpreter that has imported hloom."""
    folder = Path(tempfile.mkdtemp(prefix="hloom-bench-"))
    path = folder / "four_megabytes.hlo"
    size = round(SMALL * FOUR_MB / len(text_of(SMALL)))
    path.write_text(module_text(size))
    code = (
        "import time, hloom; t = time.perf_counter(); "
        f"hloom.load({str(path)!r}); print(time.perf_counter() - t)"
    )
    return {"hloom": lambda: float(fresh(code))}


@contest("memory", "bytes/instruction", at_most=1536)
def _() -> Contestants:
    """What a parsed module of 10,000 instructions keeps, per instruction."""
    from hloom.ir.text import parse_module

    text, n = text_of(SMALL), count(SMALL)

    def once() -> float:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            kept = parse_module(text)
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert kept.instruction_count == n
        return (after - before) / n

    return {"hloom": once}


def corpus_contest(path: Path) -> None:
    """Register reading and printing of one real program."""

    def prepare() -> Contestants:
        """Read and print a real program of the corpus."""
        from hloom.ir.text import parse_module, show_module

        text = path.read_text()
        n = parse_module(text).instruction_count
        return with_peer(
            rate(n, lambda: show_module(parse_module(text))),
            lambda hlo: rate(n, lambda: hlo.hlo_module_from_text(text).to_string()),
        )

    contest(f"corpus {path.stem[:24]}", "instructions/s")(prepare)


for real in sorted(CORPUS.glob("*/*.hlo")):
    if real.stat().st_size > 250_000:
        corpus_contest(real)
