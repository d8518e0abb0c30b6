"""Random conditionals between operations that may move: values stay, nothing is left to move."""

import random

import numpy as np
import pytest

import hloom

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"


class Drawn:
    """A program of one conditional, of two or three branches that are handed tuples or arrays."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        n, m = self.rng.choice([1, 2, 7]), self.rng.choice([1, 3, 4])
        self.full, self.row = f"f32[{n},{m}]", f"f32[{m}]"
        self.first = f"f32[1,{m}] slice(%s), slice={{[0:1], [0:{m}]}}"
        self.product = (
            f"f32[{n}] dot(%s, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        )
        self.narrow = f"bf16[{n},{m}] convert(%s)"
        self.leaves = self.rng.randint(0, 3)
        self.tuples = [self.rng.random() < 0.6 for _ in range(self.rng.choice([2, 3]))]

    def chain(self, lines: list[str], values: list[str], prefix: str) -> list[str]:
        """More arrays made of those that there are."""
        for k in range(self.rng.randint(1, 4)):
            opcode, (x, y) = self.rng.choice(["tanh", "add"]), self.rng.choices(values, k=2)
            operands = f"{x}, {y}" if opcode == "add" else x
            lines.append(f"{prefix}{k} = {self.full} {opcode}({operands})")
            values = [*values, f"{prefix}{k}"]
        return values

    def branch(self, name: str, is_tuple: bool) -> str:
        lines, values = [f"p = {self.full} parameter(0)"], ["p"]
        if is_tuple:
            lines = [f"p = ({self.full}, {self.row}, {self.full}) parameter(0)"]
            lines.append(f"e = {self.full} get-tuple-element(p), index={self.rng.choice([0, 2])}")
            values = ["e"]
            if self.rng.random() < 0.5:
                lines.append(f"w = {self.row} get-tuple-element(p), index=1")
                lines.append(f"b = {self.full} broadcast(w), dimensions={{1}}")
                values.append("b")
        values = self.chain(lines, values, "t")
        returned = ", ".join(self.rng.choices(values, k=self.leaves))
        of = ", ".join([self.full] * self.leaves)
        last = f"({of}) tuple({returned})" if self.leaves else f"{self.full} tanh({values[-1]})"
        return "\n".join([f"{name} {{", *lines, f"ROOT r = {last}", "}"])

    def text(self) -> str:
        names = [f"c{k}" for k in range(len(self.tuples))]
        branches = [self.branch(name, t) for name, t in zip(names, self.tuples, strict=True)]
        lines = [f"x = {self.full} parameter(1)", f"w = {self.row} parameter(2)"]
        lines += ["zero = f32[] constant(0)", f"v = {self.row} negate(w)"]
        values = self.chain(lines, ["x"], "m")
        operands = []
        for k, is_tuple in enumerate(self.tuples):
            x, y = self.rng.choices(values, k=2)
            of = f"({self.full}, {self.row}, {self.full}) tuple({x}, v, {y})"
            lines += [f"o{k} = {of}"] if is_tuple else []
            operands.append(f"o{k}" if is_tuple else x)
        of = "(" + ", ".join([self.full] * self.leaves) + ")" if self.leaves else self.full
        called = f"branch_computations={{{', '.join(names)}}}"
        lines.append(f"c = {of} conditional(q, {', '.join(operands)}), {called}")
        leaves = [f"g{k}" for k in range(self.leaves)] or ["c"]
        lines += [f"g{k} = {self.full} get-tuple-element(c), index={k}" for k in range(self.leaves)]
        readers = [self.reader(x, leaves, values) for x in leaves]
        lines += [f"r{k} = {reader}" for k, reader in enumerate(readers)]
        results = ", ".join([f"r{k}" for k in range(len(readers))])
        of = ", ".join([reader.split(" ")[0] for reader in readers])
        main = [
            "ENTRY main {",
            "q = s32[] parameter(0)",
            *lines,
            f"ROOT t = ({of}) tuple({results})",
        ]
        return "\n".join(["HloModule m", ADD, *branches, *main, "}"])

    def reader(self, x: str, leaves: list[str], values: list[str]) -> str:
        total = f"{self.row} reduce(%s, zero), dimensions={{0}}, to_apply=add"
        forms = [self.first, self.product, self.narrow, total, f"{self.full} tanh(%s)"]
        forms += [f"{self.full} add(%s, {self.rng.choice([*leaves, *values])})"]
        return self.rng.choice(forms) % x


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_drawn_conditionals_compute_the_same(first: int) -> None:
    motion = hloom.pass_named("conditional-code-motion")
    fired = 0
    for seed in range(first, first + 20):
        module, moved = (hloom.parse(Drawn(seed).text()) for _ in range(2))
        fired += motion.run(moved).fired.total()
        hloom.verify(moved)
        assert not motion.run(moved).changed
        _, *arguments = hloom.random_arguments(module, seed=seed)
        for branch in range(3):
            results = [
                hloom.evaluate(program, np.int32(branch), *arguments).elements
                for program in (module, moved)
            ]
            for x, y in zip(*results, strict=True):
                assert np.array_equal(x.array, y.array), seed
    assert fired > 5
