"""Programs that fold a function of two arrays, each of which has a part of the dimensions."""

from collections.abc import Sequence

TEXT = """HloModule m

fold {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY e {{
  x = {x} parameter(0)
  y = {y} parameter(1)
  z = f32[] constant(0)
  p = {all} broadcast(x), dimensions={{{left}}}
  q = {all} broadcast(y), dimensions={{{right}}}
  d = {all} {combine}(p, q)
  s = {all} {each}
  r = {kept} reduce(s, z), dimensions={{{over}}}, to_apply=fold
  {root}
}}
"""


def sum_of_pairs(
    sizes: Sequence[int],
    left: Sequence[int],
    right: Sequence[int],
    over: int,
    combine: str = "subtract",
    each: str = "abs(d)",
    root: str = "ROOT t = {kept} copy(r)",
) -> str:
    """The sum along `over` of `each`, which is of `d`: of two arrays with the dimensions `left` and
    `right` of `sizes`, combined. `root` ends it; `{kept}` is the shape of the sum `r`."""

    def of(dims: Sequence[int]) -> str:
        return f"f32[{','.join([str(sizes[d]) for d in dims])}]"

    def said(dims: Sequence[int]) -> str:
        return ",".join(map(str, dims))

    every = range(len(sizes))
    kept = of([d for d in every if d != over])
    return TEXT.format(
        x=of(left),
        y=of(right),
        all=of(every),
        left=said(left),
        right=said(right),
        kept=kept,
        over=over,
        combine=combine,
        each=each,
        root=root.format(kept=kept),
    )
