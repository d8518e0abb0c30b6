"""Steps that several threads may share, in a C library: chunk by chunk, here or by a pool.

A pool is two pointers, a function and what it is handed first: `parallel_for(self, piece, data,
count, serial_ns)` calls `piece(data, k)` once for each k below `count`, on whatever threads, and
returns when all have returned. A chunk is the same wherever it runs, so results are.
"""

from __future__ import annotations

from hloom.codegen.llvm.machine import Machine

PARALLEL = "declare void @hl_parallel_for_ns(ptr, ptr, ptr, i64, i64, i64)"
POOL_AT = 40
"""Of the context: the pool of this call, or null."""
_PARAMETERS = "(ptr %c, ptr %f, ptr %args, i64 %n, i64 %grain, i64 %ns)"
_IN_TURN = """check:
  %begin = phi i64 [ 0, %start ], [ %end, %chunk ]
  %more = icmp slt i64 %begin, %n
  br i1 %more, label %chunk, label %done
chunk:
  %next = add i64 %begin, %grain
  %inside = icmp slt i64 %next, %n
  %end = select i1 %inside, i64 %next, i64 %n
  call void %f(ptr %args, i64 %begin, i64 %end)
  br label %check
done:
  ret void
}"""
_CLOSURE = "{ ptr, ptr, i64, i64 }"


def parallel_text(machine: Machine, has_pool: bool) -> str:
    """The function that runs a region."""
    head = f"define internal void @hl_parallel_for_ns{_PARAMETERS} {{\nstart:\n"
    if not has_pool:
        return f"{head}  br label %check\n{_IN_TURN}"
    pointer = machine.address_bytes
    return f"""define internal void @parallel_piece(ptr %data, i64 %k) {{
start:
  %args.at = getelementptr {_CLOSURE}, ptr %data, i64 0, i32 1
  %n.at = getelementptr {_CLOSURE}, ptr %data, i64 0, i32 2
  %grain.at = getelementptr {_CLOSURE}, ptr %data, i64 0, i32 3
  %f = load ptr, ptr %data
  %args = load ptr, ptr %args.at
  %n = load i64, ptr %n.at
  %grain = load i64, ptr %grain.at
  %begin = mul i64 %k, %grain
  %next = add i64 %begin, %grain
  %inside = icmp slt i64 %next, %n
  %end = select i1 %inside, i64 %next, i64 %n
  call void %f(ptr %args, i64 %begin, i64 %end)
  ret void
}}
{head}  %data = alloca {_CLOSURE}, align 8
  %pool.at = getelementptr i8, ptr %c, i64 {POOL_AT}
  %pool = load ptr, ptr %pool.at
  %alone = icmp eq ptr %pool, null
  %single = icmp sle i64 %n, %grain
  %serial = or i1 %alone, %single
  br i1 %serial, label %check.first, label %shared
shared:
  %args.at = getelementptr {_CLOSURE}, ptr %data, i64 0, i32 1
  %n.at = getelementptr {_CLOSURE}, ptr %data, i64 0, i32 2
  %grain.at = getelementptr {_CLOSURE}, ptr %data, i64 0, i32 3
  store ptr %f, ptr %data
  store ptr %args, ptr %args.at
  store i64 %n, ptr %n.at
  store i64 %grain, ptr %grain.at
  %most = add i64 %n, %grain
  %sum = sub i64 %most, 1
  %count = sdiv i64 %sum, %grain
  %self.at = getelementptr i8, ptr %pool, i64 {pointer}
  %run = load ptr, ptr %pool
  %self = load ptr, ptr %self.at
  call void %run(ptr %self, ptr @parallel_piece, ptr %data, i64 %count, i64 %ns)
  ret void
check.first:
  br label %check
{_IN_TURN.replace("%start ]", "%check.first ]")}"""
