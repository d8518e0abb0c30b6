"""Random small programs on arrays of run-time size, as text, with their arguments."""

import random

import numpy as np

BODY = """HloModule dynamic
sum {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] add(a, b)
}}
less {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT
}}
{called}ENTRY e {{
{lines}}}
"""
LOOP = """body{k} {{
  s = (s32[], ({of}, s32[])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  t = ({of}, s32[]) get-tuple-element(s), index=1
  x = {of} get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
{step}
  u = ({of}, s32[]) tuple(y, n)
  ROOT r = (s32[], ({of}, s32[])) tuple(j, u)
}}
condition{k} {{
  s = (s32[], ({of}, s32[])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT l = pred[] compare(i, n), direction=LT
}}
"""
RESIZED = """  z = {of} negate(x)
  had = s32[] get-dimension-size(z), dimensions={{0}}
  left = s32[] minimum(n, had)
  y = {of} set-dimension-size(z, left), dimensions={{0}}"""
BRANCH = """branch{k}_{n} {{
  x = {of} parameter(0)
  ROOT y = {of} {opcode}(x)
}}
"""


def shape_text(dims, flags, dtype="s32"):
    sizes = ",".join("<=" * f + str(n) for n, f in zip(dims, flags, strict=True))
    return f"{dtype}[{sizes}]"


class Program:
    """One program being drawn; `pool` has the name, bounds and flags of its arrays."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.pool, self.lines, self.called, self.arguments = [], [], [], []
        self.bounds = [self.r.choice([1, 2, 3, 4, 5, 8]) for _ in range(2)]
        self.scalars = []
        for k in range(self.r.randint(2, 4)):
            self.parameter(k)
        for _ in range(self.r.randint(2, 8)):
            getattr(self, self.r.choice(OPS))()
        self.finish()

    def draw_bounds(self):
        return tuple(self.r.choice(self.bounds) for _ in range(self.r.choice([1, 1, 2])))

    def add(self, dims, flags, text, dtype="s32"):
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {shape_text(dims, flags, dtype)} {text}")
        if dtype == "s32" and dims:
            self.pool.append((name, tuple(dims), tuple(flags)))
        return name

    def size(self, most):
        return self.r.choice([0, 1, 1, most, most, self.r.randint(0, most)][: 6 if most else 1])

    def argument(self, array):
        self.arguments.append(array)
        return f"parameter({len(self.arguments) - 1})"

    def parameter(self, _):
        dims = self.draw_bounds()
        flags = [self.r.random() < 0.6 for _ in dims]
        sizes = [self.size(n) if f else n for n, f in zip(dims, flags, strict=True)]
        values = np.array(
            [self.r.randint(-9, 9) for _ in range(int(np.prod(sizes)))], np.int32
        ).reshape(sizes)
        self.add(dims, flags, self.argument(values))

    def number(self, most):
        return self.add((), (), self.argument(np.int32(self.size(most))))

    def pick(self, dims=None):
        found = [x for x in self.pool if dims is None or x[1] == dims]
        return self.r.choice(found[-6:])

    # -- operations

    def resize(self):
        x, dims, flags = self.pick()
        d = self.r.randrange(len(dims))
        n = self.number(dims[d])
        if flags[d]:  # what a size that grows shows is not defined
            m = self.add((), (), f"get-dimension-size({x}), dimensions={{{d}}}")
            n = self.add((), (), f"minimum({n}, {m})")
        flags = [f or k == d for k, f in enumerate(flags)]
        self.add(dims, flags, f"set-dimension-size({x}, {n}), dimensions={{{d}}}")

    def unary(self):
        x, dims, flags = self.pick()
        self.add(dims, flags, f"{self.r.choice(['negate', 'abs', 'copy'])}({x})")

    def binary(self):
        x, dims, f = self.pick()
        y, _, g = self.pick(dims)
        flags = [a or b for a, b in zip(f, g, strict=True)]
        opcode = self.r.choice(["add", "subtract", "maximum", "multiply"])
        self.add(dims, flags, f"{opcode}({x}, {y})")

    def choice(self):
        x, dims, f = self.pick()
        y, _, g = self.pick(dims)
        z, _, h = self.pick(dims)
        flags = [a or b for a, b in zip(f, g, strict=True)]
        if self.r.random() < 0.3:
            flags = [a or b for a, b in zip(flags, h, strict=True)]
            self.add(dims, flags, f"clamp({x}, {y}, {z})")
            return
        p = self.add(dims, flags, f"compare({x}, {y}), direction=LT", "pred")
        flags = [a or b for a, b in zip(flags, h, strict=True)]
        self.add(dims, flags, f"select({p}, {y}, {z})")

    def broadcast(self):
        x, dims, flags = self.pick()
        if len(dims) > 1:
            return
        n = self.r.choice(self.bounds)
        if self.r.random() < 0.5:
            self.add((n, *dims), (False, *flags), f"broadcast({x}), dimensions={{1}}")
        else:
            self.add((*dims, n), (*flags, False), f"broadcast({x}), dimensions={{0}}")

    def transpose(self):
        x, dims, flags = self.pick()
        order = ",".join(map(str, reversed(range(len(dims)))))
        self.add(dims[::-1], flags[::-1], f"transpose({x}), dimensions={{{order}}}")

    def reduce(self):
        x, dims, flags = self.pick()
        d = self.r.randrange(len(dims))
        zero = self.add((), (), "constant(0)")
        kept = [k for k in range(len(dims)) if k != d]
        name = self.add(
            [dims[k] for k in kept],
            [flags[k] for k in kept],
            f"reduce({x}, {zero}), dimensions={{{d}}}, to_apply=sum",
        )
        if not kept:
            self.scalars.append(name)

    def concatenate(self):
        x, dims, f = self.pick()
        y, _, g = self.pick(dims)
        d = self.r.randrange(len(dims))
        flags = [a or b for a, b in zip(f, g, strict=True)]
        dims = [n * 2 if k == d else n for k, n in enumerate(dims)]
        self.add(dims, flags, f"concatenate({x}, {y}), dimensions={{{d}}}")

    def slice(self):
        x, dims, flags = self.pick()
        ranges, out = [], []
        for n in dims:
            low = self.r.randint(0, n - 1) if self.r.random() < 0.5 else 0
            high = self.r.randint(low + 1, n) if self.r.random() < 0.5 else n
            step = self.r.choice([1, 1, 2])
            ranges.append(f"[{low}:{high}:{step}]")
            out.append(-(-(high - low) // step))
        self.add(out, flags, f"slice({x}), slice={{{', '.join(ranges)}}}")

    def pad(self):
        x, dims, flags = self.pick()
        nine = self.add((), (), "constant(9)")
        rows = [(self.r.randint(0, 2), self.r.randint(0, 2), self.r.randint(0, 1)) for _ in dims]
        out = [n + a + b + (n - 1) * c for n, (a, b, c) in zip(dims, rows, strict=True)]
        text = "x".join(f"{a}_{b}_{c}" for a, b, c in rows)
        self.add(out, flags, f"pad({x}, {nine}), padding={text}")

    def reverse(self):
        x, dims, flags = self.pick()
        self.add(dims, flags, f"reverse({x}), dimensions={{{self.r.randrange(len(dims))}}}")

    def sort(self):
        x, dims, flags = self.pick()
        d = self.r.randrange(len(dims))
        self.add(dims, flags, f"sort({x}), dimensions={{{d}}}, to_apply=less")

    def reshape(self):
        x, dims, flags = self.pick()
        count = int(np.prod(dims))
        if any(flags):
            self.add((count,), (True,), f"reshape({x})")
        else:
            self.add((count,), (False,), f"reshape({x})")

    def dynamic_reshape(self):
        x, dims, flags = self.pick()
        sizes = [
            self.add((), (), f"get-dimension-size({x}), dimensions={{{d}}}")
            for d in range(len(dims))
        ]
        order = list(reversed(range(len(dims))))
        self.add(
            [dims[k] for k in order],
            [flags[k] for k in order],
            f"dynamic-reshape({x}, {', '.join(sizes[k] for k in order)})",
        )

    def dot(self):
        x, dims, f = self.pick()
        y, other, g = self.pick()
        pairs = [(j, k) for j, n in enumerate(dims) for k, m in enumerate(other) if n == m]
        if not pairs:
            return
        j, k = self.r.choice(pairs)
        left = [d for d in range(len(dims)) if d != j]
        right = [d for d in range(len(other)) if d != k]
        self.add(
            [dims[d] for d in left] + [other[d] for d in right],
            [f[d] for d in left] + [g[d] for d in right],
            f"dot({x}, {y}), lhs_contracting_dims={{{j}}}, rhs_contracting_dims={{{k}}}",
        )

    def get_size(self):
        x, dims, _ = self.pick()
        d = self.r.randrange(len(dims))
        n = self.add((), (), f"get-dimension-size({x}), dimensions={{{d}}}")
        self.scalars.append(n)
        y, dims, flags = self.pick()
        b = self.add(dims, [False] * len(dims), f"broadcast({n}), dimensions={{}}")
        self.add(dims, flags, f"multiply({y}, {b})")

    def dynamic_slice(self):
        x, dims, flags = self.pick()
        starts = [self.number(n) for n in dims]
        at = ",".join(map(str, dims))
        self.add(
            dims, flags, f"dynamic-slice({x}, {', '.join(starts)}), dynamic_slice_sizes={{{at}}}"
        )

    def update(self):
        x, dims, flags = self.pick()
        y, _, _ = self.pick(dims)
        starts = [self.number(n) for n in dims]
        self.add(dims, flags, f"dynamic-update-slice({x}, {y}, {', '.join(starts)})")

    def window(self):
        x, dims, flags = self.pick()
        zero = self.add((), (), "constant(0)")
        size, pads = "x".join("2" for _ in dims), "x".join("1_0" for _ in dims)
        window = f"window={{size={size} pad={pads}}}, to_apply=sum"
        self.add(dims, flags, f"reduce-window({x}, {zero}), {window}")

    def gather(self):
        """Elements of a column by numbers that may lie outside, where they are clamped."""
        x, dims, flags = self.pick()
        at, (count, *rest), (flag, *_) = self.pick()
        if len(dims) > 1 or rest:
            return
        two = self.add((2,), (False,), "constant({5, 6})")  # of no element nothing is defined
        x = self.add((dims[0] + 2,), flags, f"concatenate({x}, {two}), dimensions={{0}}")
        self.add(
            (count,),
            (flag,),
            f"gather({x}, {at}), offset_dims={{}}, collapsed_slice_dims={{0}}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
        )

    def loop(self):
        x, dims, flags = self.pick()
        of, k = shape_text(dims, flags), len(self.called)
        step = f"  y = {of} {self.r.choice(['negate(x)', 'add(x, x)', 'copy(x)'])}"
        if flags[0] and self.r.random() < 0.5:
            step = RESIZED.format(of=of)
        self.called.append(LOOP.format(k=k, of=of, step=step))
        zero = self.add((), (), "constant(0)")
        n = self.number(dims[0])
        inner, whole = f"({of}, s32[])", f"(s32[], ({of}, s32[]))"
        self.lines.append(f"a{k} = {inner} tuple({x}, {n})")
        self.lines.append(f"b{k} = {whole} tuple({zero}, a{k})")
        self.lines.append(f"c{k} = {whole} while(b{k}), condition=condition{k}, body=body{k}")
        self.lines.append(f"d{k} = {inner} get-tuple-element(c{k}), index=1")
        self.add(dims, flags, f"get-tuple-element(d{k}), index=0")

    def conditional(self):
        x, dims, flags = self.pick()
        y, _, g = self.pick(dims)
        if flags != g:
            return
        of, k = shape_text(dims, flags), len(self.called)
        self.called.append(
            "".join(
                BRANCH.format(k=k, n=n, of=of, opcode=o) for n, o in enumerate(("negate", "abs"))
            )
        )
        b = self.number(1)
        branches = f"branch_computations={{branch{k}_0, branch{k}_1}}"
        self.add(dims, flags, f"conditional({b}, {x}, {y}), {branches}")

    def finish(self):
        """The result: the last values, some of them in a nested tuple."""
        names = [*self.pool[-4:], *((s, (), ()) for s in self.scalars[-1:])]
        shapes = [shape_text(d, f) for _, d, f in names]
        if self.r.random() < 0.5:
            self.lines.append(f"inner = ({shapes[0]}) tuple({names[0][0]})")
            names[0], shapes[0] = ("inner", (), ()), f"({shapes[0]})"
        given = ", ".join(n[0] for n in names)
        self.lines.append(f"ROOT result = ({', '.join(shapes)}) tuple({given})")

    @property
    def text(self):
        lines = "".join(f"  {line}\n" for line in self.lines)
        return BODY.format(called="".join(self.called), lines=lines)


OPS = """resize resize unary binary binary binary choice broadcast transpose reduce concatenate
slice pad reverse sort reshape dynamic_reshape dot get_size dynamic_slice update loop
conditional window gather""".split()
