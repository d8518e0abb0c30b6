"""The execution graph and its picture."""

import random
import re
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.program.graph import execution_graph
from hloom.program.picture import DotRenderer, operations, show_graph
from hloom.program.renderer import GraphRenderer, register_renderer
from hloom.program.slice import Allocation, BufferSlice
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.random import RngGetAndUpdateState
from hloom.program.thunks.thunk import walk
from tests.small_programs import LOOPS

ARENA = Allocation(0, 4096, "temp")
A, B, C, D = (BufferSlice(ARENA, 64 * k, 64) for k in range(4))


def kernel(reads, writes, name="k"):
    flags = (False,) * len(reads) + (True,) * len(writes)
    return Kernel(name, "k", (*reads, *writes), flags, 1, 1.0)


def edges(*thunks):
    return execution_graph(thunks).edges


def test_the_example_of_the_specification():
    found = edges(kernel([], [A]), kernel([A], [B]), kernel([A], [C]), kernel([B, C], []))
    assert found == ((0, 1), (0, 2), (1, 3), (2, 3))


def test_conflicts_of_each_kind():
    assert edges(kernel([], [A]), kernel([A], [])) == ((0, 1),)  # read after write
    assert edges(kernel([A], []), kernel([], [A])) == ((0, 1),)  # write after read
    assert edges(kernel([], [A]), kernel([], [A])) == ((0, 1),)  # write after write
    assert edges(kernel([A], []), kernel([A], [])) == ()
    assert edges(kernel([], [A]), kernel([], [B])) == ()


def test_parts_of_buffers():
    both, half = BufferSlice(ARENA, 0, 128), BufferSlice(ARENA, 32, 64)
    assert edges(kernel([], [both]), kernel([half], [C]), kernel([], [A])) == ((0, 1), (1, 2))
    assert edges(kernel([], [A]), kernel([], [B]), kernel([half], [])) == ((0, 2), (1, 2))


def test_state_beside_memory():
    one = RngGetAndUpdateState("r", "hl_rng", (), (), (A,))
    two = RngGetAndUpdateState("s", "hl_rng", (), (), (B,))
    assert edges(one, kernel([], [C]), two) == ((0, 2),)


def reduced(count, conflict):
    """The reduction by the definition: an edge is left where no longer way leads."""
    reach = [{b for b in range(a) if conflict(b, a)} for a in range(count)]
    whole = []
    for a in range(count):
        whole.append(set().union(reach[a], *[whole[b] for b in reach[a]]))
    return tuple(
        sorted(
            (b, a)
            for a in range(count)
            for b in reach[a]
            if not any(b in whole[c] for c in reach[a])
        )
    )


def test_drawn_sequences():
    draw = random.Random(7)
    for _ in range(60):
        thunks = []
        for _ in range(draw.randint(1, 14)):
            places = [
                BufferSlice(ARENA, draw.randrange(0, 64, 4), draw.choice((4, 8, 20)))
                for _ in range(draw.randint(1, 3))
            ]
            cut = draw.randint(0, len(places))
            thunks.append(kernel(places[:cut], places[cut:]))

        def conflict(b, a, thunks=thunks):
            return any(
                (x.writes or y.writes) and x.slice.overlaps(y.slice)
                for x in thunks[b].uses()
                for y in thunks[a].uses()
            )

        assert edges(*thunks) == reduced(len(thunks), conflict)


def test_long_sequences_are_quick():
    thunks = [kernel([A if k % 2 else B], [B if k % 2 else A]) for k in range(5000)]
    graph = execution_graph(thunks)
    assert graph.is_chain and len(graph.edges) == 4999


def test_picture():
    program = hloom.compile(LOOPS).program
    text = show_graph(program.name, program.thunks)
    assert text.count("{") == text.count("}") and text.startswith('digraph "loops" {')
    nodes = re.findall(r"^ *(n\w+) \[label=", text, re.M)
    assert len(nodes) == len(set(nodes)) == sum(1 for _ in walk(program.thunks))
    clusters = re.findall(r"subgraph cluster_\w*?(condition|body) ", text)
    assert clusters == ["condition", "body"]
    drawn = re.findall(r"^  (n\d+) -> (n\d+);", text, re.M)
    assert drawn == [(f"n{a}", f"n{b}") for a, b in execution_graph(program.thunks).edges]


class Counting(GraphRenderer):
    """Keeps what it is asked to draw."""

    def __init__(self):
        self.drawn = []

    def render(self, name, steps):
        self.drawn.append((name, steps))
        return f"{len(steps)} steps"

    def publish(self, name, picture):
        return f"memory:{name}:{picture}"


@pytest.fixture
def nobody():
    """Nobody renders, before and afterwards."""
    register_renderer(None)
    yield
    register_renderer(None)


@pytest.mark.usefixtures("nobody")
def test_a_renderer_sees_every_program_once():
    counting = Counting()
    register_renderer(counting)
    executable = hloom.compile(LOOPS)
    for _ in range(3):
        executable(np.int32(20), np.arange(40, dtype=np.float32))
    (name, steps), *others = counting.drawn
    assert not others and name == "loops"
    assert steps == operations(executable.program.thunks)
    place = executable._executor.graph_place
    assert place == f"memory:loops:{len(steps)} steps"
    loop = next(s for s in steps if s.kind == "While")
    assert [part for part, _ in loop.parts] == ["condition", "body"]
    register_renderer(None)
    assert hloom.compile(LOOPS)._executor.graph_place is None and len(counting.drawn) == 1


@pytest.mark.usefixtures("nobody")
def test_the_last_renderer_wins_and_says_so(caplog, tmp_path):
    first = Counting()
    register_renderer(first)
    assert not caplog.records
    register_renderer(DotRenderer(tmp_path / "graphs"))
    assert "DotRenderer from now on, no longer by Counting" in caplog.text
    places = [hloom.compile(LOOPS)._executor.graph_place for _ in range(2)]
    assert first.drawn == []
    assert [Path(p).name for p in places] == ["loops.dot", "loops.1.dot"]
    program = hloom.compile(LOOPS).program
    assert {Path(p).read_text() for p in places} == {show_graph(program.name, program.thunks)}
