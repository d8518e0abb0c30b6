"""Random counted loops that communicate what they load and what they write."""

from __future__ import annotations

import random

GATHER = "all-gather", "reduce-scatter"


class Loop:
    """A program of one loop; values are whole numbers. `kinds` says what its collectives do."""

    def __init__(self, seed: int, kinds: tuple[str, ...], trips: int | None = None) -> None:
        self.rng = rng = random.Random(seed)
        self.devices = rng.choice([2, 4])
        self.trips = trips or rng.choice([1, 2, 3, 10])
        self.start, self.by = rng.choice([(0, 1), (0, 1), (3, 1), (2, 2), (self.trips - 1, -1)])
        if "sunk" in kinds:
            self.start, self.by = 0, 1
        self.lines: list[str] = []
        self.names = 0
        self.state = ["s32[]", "s32[8]"]
        self.init = ["start", "y"]
        self.next: list[str] = ["after", "sum"]
        self.total = "acc"
        for kind in kinds:
            getattr(self, kind)()

    def emit(self, what: str, of: str) -> str:
        self.names += 1
        self.lines.append(f"v{self.names} = {of} {what}")
        return f"v{self.names}"

    def element(self, of: str, init: str, after: str | None = None) -> str:
        """One more element of the state; its name in the body."""
        k = len(self.state)
        self.state.append(of)
        self.init.append(init)
        name = f"e{k}"
        self.next.append(after or name)
        self.lines.append(f"{name} = {of} get-tuple-element(s), index={k}")
        return name

    @property
    def slots(self) -> int:
        return max(self.start, self.start + self.by * (self.trips - 1)) + 1

    def communicated(self, x: str, size: int) -> tuple[str, int]:
        """A collective of s32[size], and how long its result is."""
        n, channel = self.devices, f"channel_id={self.rng.randint(1, 4)}"
        meeting = f"{channel}, replica_groups={{{{{','.join(map(str, range(n)))}}}}}"
        meeting += ", use_global_device_ids=true"
        kind = self.rng.choice(["all-reduce", "all-gather", "reduce-scatter", "permute"])
        if kind == "all-reduce":
            return self.emit(f"all-reduce({x}), {meeting}, to_apply=plus", f"s32[{size}]"), size
        if kind == "all-gather":
            of = f"s32[{size * n}]"
            return self.emit(f"all-gather({x}), {meeting}, dimensions={{0}}", of), size * n
        if kind == "reduce-scatter":
            of = f"s32[{size // n}]"
            text = f"reduce-scatter({x}), {meeting}, dimensions={{0}}, to_apply=plus"
            return self.emit(text, of), size // n
        pairs = ",".join(f"{{{d},{(d + 1) % n}}}" for d in range(n))
        text = f"collective-permute({x}), {channel}, source_target_pairs={{{pairs}}}"
        return self.emit(text, f"s32[{size}]"), size

    def row(self, buffer: str, size: int, at: str = "k") -> str:
        read = f"dynamic-slice({buffer}, {at}, zero), dynamic_slice_sizes={{1,{size}}}"
        return self.emit(f"reshape({self.emit(read, f's32[1,{size}]')})", f"s32[{size}]")

    def formed(self, x: str, size: int) -> str:
        for _ in range(self.rng.randint(0, 2)):
            if self.rng.random() < 0.5:
                x = self.emit(f"negate({x})", f"s32[{size}]")
            else:
                b = self.emit("broadcast(three), dimensions={}", f"s32[{size}]")
                x = self.emit(f"multiply({x}, {b})", f"s32[{size}]")
        return x

    def added(self, x: str, size: int) -> None:
        """Let the running sum depend on a value."""
        zero = self.emit("constant(0)", "s32[]")
        number = self.emit(f"reduce({x}, {zero}), dimensions={{0}}, to_apply=plus", "s32[]")
        spread = self.emit(f"broadcast({number}), dimensions={{}}", "s32[8]")
        self.total = self.emit(f"add({self.total}, {spread})", "s32[8]")

    def written(self, buffer: str, x: str, size: int, whole: str, at: str = "k") -> str:
        row = self.emit(f"reshape({x})", f"s32[1,{size}]")
        return self.emit(f"dynamic-update-slice({buffer}, {row}, {at}, zero)", whole)

    def loaded(self) -> None:
        """`acc += collective(weights[k])`."""
        weights = self.element(f"s32[{self.slots},8]", "w")
        x, size = self.communicated(self.formed(self.row(weights, 8), 8), 8)
        if self.rng.random() < 0.3:
            x, size = self.communicated(self.formed(x, size), size) if size >= 8 else (x, size)
        self.added(x, size)

    def updated(self) -> None:
        """`buffer[k] = collective(f(buffer[k]))`."""
        whole = f"s32[{self.slots},8]"
        k = len(self.state)
        buffer = self.element(whole, "w", f"n{k}")
        x = self.row(buffer, 8)
        x = self.emit(f"add({x}, {self.total})", "s32[8]")
        x, size = self.communicated(x, 8)
        while size != 8:
            x = self.lines.pop().split(" = ")[1].split("(")[1].split(")")[0].split(",")[0]
            x, size = self.communicated(x, 8)
        self.names_as(f"n{k}", self.written(buffer, self.formed(x, 8), 8, whole))
        if self.rng.random() < 0.5:
            self.total = self.emit(f"add({self.total}, y0)", "s32[8]")

    def sunk(self) -> None:
        """`stack[k] = collective(f(k))`, maybe from the end."""
        k = len(self.state)
        x = self.emit(f"add({self.total}, y0)", "s32[8]")
        x, size = self.communicated(x, 8)
        rows = self.slots + self.rng.randint(0, 2)
        whole = f"s32[{rows},{size}]"
        init = f"init{k}"
        self.begins = [
            *getattr(self, "begins", []),
            f"{init} = {whole} broadcast(five), dimensions={{}}",
        ]
        buffer = self.element(whole, init, f"n{k}")
        at = "k"
        if self.rng.random() < 0.5:
            at = self.emit("subtract(last, k)", "s32[]")
        self.names_as(f"n{k}", self.written(buffer, self.formed(x, size), size, whole, at))
        self.total = self.emit(f"add({self.total}, y0)", "s32[8]")

    def names_as(self, name: str, value: str) -> None:
        self.next[int(name[1:])] = value

    @property
    def text(self) -> str:
        state = "(" + ", ".join(self.state) + ")"
        bound, direction = self.start + self.by * self.trips, "LT" if self.by > 0 else "GT"
        after = [self.total if x == "sum" else x for x in self.next]
        body = "\n  ".join(self.lines)
        begins = "\n  ".join(getattr(self, "begins", []))
        return f"""HloModule m, num_partitions={self.devices}
plus {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] add(a, b)
}}
body {{
  s = {state} parameter(0)
  k = s32[] get-tuple-element(s), index=0
  acc = s32[8] get-tuple-element(s), index=1
  step = s32[] constant({self.by})
  after = s32[] add(k, step)
  zero = s32[] constant(0)
  three = s32[] constant(3)
  last = s32[] constant({self.trips - 1})
  id = u32[] partition-id()
  id0 = s32[] convert(id)
  y1 = s32[8] broadcast(k), dimensions={{}}
  y2 = s32[8] broadcast(id0), dimensions={{}}
  y0 = s32[8] add(y1, y2)
  {body}
  ROOT t = {state} tuple({", ".join(after)})
}}
condition {{
  s = {state} parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant({bound})
  ROOT l = pred[] compare(k, n), direction={direction}
}}
ENTRY e {{
  w = s32[{self.slots},8] parameter(0)
  y = s32[8] parameter(1)
  start = s32[] constant({self.start})
  five = s32[] constant(5)
  {begins}
  t = {state} tuple({", ".join(self.init)})
  ROOT r = {state} while(t), condition=condition, body=body
}}"""
