"""A loop whose steps reduce, permute and read what was gathered, as passes on loops look for."""

from __future__ import annotations

from tests.passes.collectives.draw_values import FOLDS, SIZE, Drawing


class LoopSteps(Drawing):
    """A step of a drawn program that is a loop."""

    def loop(self) -> None:
        """All-reduces that a loop adds up, and stacks."""
        rows = f"s32[4,{SIZE}]"
        state = f"(s32[], s32[{SIZE}], {rows}, s32[{SIZE}], s32[{SIZE}], {rows})"
        one, two = (f"{self.groups()[0]}, to_apply={f}" for f in ("add", self.rng.choice(FOLDS)))
        index = self.rng.choice(["k", "back", "zero"])
        self.bodies = f"""body {{
  s = {state} parameter(0)
  k = s32[] get-tuple-element(s), index=0
  acc = s32[{SIZE}] get-tuple-element(s), index=1
  out = s32[4,{SIZE}] get-tuple-element(s), index=2
  x = s32[{SIZE}] get-tuple-element(s), index=3
  r = s32[{SIZE}] get-tuple-element(s), index=4
  all = {rows} get-tuple-element(s), index=5
  one = s32[] constant(1)
  zero = s32[] constant(0)
  last = s32[] constant(3)
  back = s32[] subtract(last, k)
  next = s32[] add(k, one)
  ks = s32[{SIZE}] broadcast(k), dimensions={{}}
  row = s32[1,{SIZE}] dynamic-slice(all, k, zero), dynamic_slice_sizes={{1,{SIZE}}}
  layer = s32[{SIZE}] reshape(row)
  kx = s32[{SIZE}] multiply(x, ks)
  lr = s32[{SIZE}] add(layer, r)
  m = s32[{SIZE}] add(kx, lr)
  moved = s32[{SIZE}] collective-permute(lr), {self.pairs()}
  rows = s32[4,{SIZE // 4}] reshape(m)
  c = s32[4,{SIZE // 4}] all-reduce(rows), {one}
  ct = s32[{SIZE // 4},4] transpose(c), dimensions={{1,0}}
  a = s32[{SIZE}] reshape(ct)
  b = s32[{SIZE}] all-reduce(m), {two}
  b1 = s32[1,{SIZE}] reshape(b)
  acc1 = s32[{SIZE}] add(acc, a)
  out1 = s32[4,{SIZE}] dynamic-update-slice(out, b1, {index}, zero)
  ROOT t = {state} tuple(next, acc1, out1, x, moved, all)
}}
condition {{
  s = {state} parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(k, n), direction=LT
}}
"""
        zero = self.emit("constant(0)", "s32[]", keep=False)
        out = self.emit(f"broadcast({zero}), dimensions={{}}", f"s32[4,{SIZE}]", keep=False)
        attrs, groups = self.groups()
        size = SIZE // len(groups[0])
        shard = f"broadcast({self.part(size)}), dimensions={{1}}"
        shard = self.emit(shard, f"s32[4,{size}]", keep=False)
        all_rows = self.emit(f"all-gather({shard}), {attrs}, dimensions={{1}}", rows, keep=False)
        parts = [zero, self.value(), out, self.value(), self.value(), all_rows]
        first = self.emit(f"tuple({', '.join(parts)})", state, keep=False)
        loop = self.emit(f"while({first}), condition=condition, body=body", state, keep=False)
        self.emit(f"get-tuple-element({loop}), index=1")
        self.emit(f"get-tuple-element({loop}), index=4")
        stack = self.emit(f"get-tuple-element({loop}), index=2", f"s32[4,{SIZE}]", keep=False)
        row = self.emit(f"slice({stack}), slice={{[2:3],[0:{SIZE}]}}", f"s32[1,{SIZE}]", keep=False)
        self.emit(f"reshape({row})")
