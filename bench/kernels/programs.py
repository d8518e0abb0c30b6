"""HLO programs of one or two kernels each: what `loops.py` measures.

Each family is what users write (reductions, gathers, transposes, windows, scatters, small loops),
in the sizes at which memory, caches and threads begin to matter.
"""

from __future__ import annotations

_FOLDS = """
add_f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max_f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
mul_f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] multiply(a, b) }
add_h { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT r = bf16[] add(a, b) }
add_i { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
ge_f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }
argmax {
  a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  odd = pred[] compare(a, a), direction=NE
  first = pred[] or(gt, odd)
  eq = pred[] compare(a, b), direction=EQ
  less = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, less)
  take = pred[] or(first, tie)
  v = f32[] select(first, a, b)
  k = s32[] select(take, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k)
}
"""

_SCAN_BODY = """
body {
  p = (s32[], f32[3,3], f32[2000,3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  m = f32[3,3] get-tuple-element(p), index=1
  o = f32[2000,3] get-tuple-element(p), index=2
  one = s32[] constant(1)
  n = s32[] add(i, one)
  t = f32[3,3] transpose(m), dimensions={1,0}
  a = f32[3,3] add(m, t)
  h = f32[] constant(0.5)
  hb = f32[3,3] broadcast(h), dimensions={}
  s = f32[3,3] multiply(a, hb)
  c = f32[3,3] cosine(s)
  z = f32[] constant(0)
  row = f32[3] reduce(c, z), dimensions={1}, to_apply=add_f
  row2 = f32[1,3] reshape(row)
  zero = s32[] constant(0)
  u = f32[2000,3] dynamic-update-slice(o, row2, i, zero)
  ROOT r = (s32[], f32[3,3], f32[2000,3]) tuple(n, c, u)
}
cond {
  p = (s32[], f32[3,3], f32[2000,3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(2000)
  ROOT r = pred[] compare(i, n), direction=LT
}
"""


def _program(name: str, body: str, before: str = "") -> str:
    return f"HloModule {name}\n{_FOLDS}{before}\nENTRY e {{\n{body}\n}}\n"


def _unary(name: str, given: str, result: str) -> str:
    return _program(
        name, f"  x = {given} parameter(0)\n  z = f32[] constant(0)\n  ROOT r = {result}"
    )


def _reductions() -> dict[str, str]:
    found = {}
    for name, given, kept, dims in (
        ("sum of 64 M", "f32[64,1024,1024]", "f32[]", "0,1,2"),
        ("sum of 1 M", "f32[1000000]", "f32[]", "0"),
        ("sum of 10 k", "f32[10000]", "f32[]", "0"),
        ("rows 4096x4096", "f32[4096,4096]", "f32[4096]", "1"),
        ("rows 1000000x8", "f32[1000000,8]", "f32[1000000]", "1"),
        ("rows 2x1000000", "f32[2,1000000]", "f32[2]", "1"),
        ("columns 4096x4096", "f32[4096,4096]", "f32[4096]", "0"),
        ("columns 1000000x8", "f32[1000000,8]", "f32[8]", "0"),
        ("columns 100000x100", "f32[100000,100]", "f32[100]", "0"),
        ("middle 32x512x768", "f32[32,512,768]", "f32[32,768]", "1"),
        ("batch norm 32x56x56x64", "f32[32,56,56,64]", "f32[64]", "0,1,2"),
        ("NCHW 32x64x56x56", "f32[32,64,56,56]", "f32[64]", "0,2,3"),
    ):
        reduced = f"{kept} reduce(x, z), dimensions={{{dims}}}, to_apply=add_f"
        found[f"reduce {name}"] = _unary("reduce", given, reduced)
    for shape, kept, d in (("1024,4096", "1024", 1), ("4096,1024", "1024", 0)):
        found[f"argmax {shape} over {d}"] = _program(
            "argmax",
            f"""  x = f32[{shape}] parameter(0)
  k = s32[{shape}] iota(), iota_dimension={d}
  z = f32[] constant(-inf)
  y = s32[] constant(0)
  ROOT r = (f32[{kept}], s32[{kept}]) reduce(x, k, z, y), dimensions={{{d}}}, to_apply=argmax""",
        )
    found["reduce rows bf16 4096x4096"] = _program(
        "reduce",
        """  x = bf16[4096,4096] parameter(0)
  z = bf16[] constant(0)
  ROOT r = bf16[4096] reduce(x, z), dimensions={1}, to_apply=add_h""",
    )
    return found


def _transposes() -> dict[str, str]:
    found = {}
    for given, result, order in (
        ("f32[4096,4096]", "f32[4096,4096]", "1,0"),
        ("f32[1000,3000]", "f32[3000,1000]", "1,0"),
        ("f32[32,56,56,64]", "f32[32,64,56,56]", "0,3,1,2"),
        ("f32[8,1024,16,64]", "f32[8,16,1024,64]", "0,2,1,3"),
        ("f32[8,1024,16,64]", "f32[8,16,64,1024]", "0,2,3,1"),
        ("bf16[4096,4096]", "bf16[4096,4096]", "1,0"),
        ("s8[4096,4096]", "s8[4096,4096]", "1,0"),
        ("f32[1000000,3]", "f32[3,1000000]", "1,0"),
        ("f32[3,1000000]", "f32[1000000,3]", "1,0"),
    ):
        text = f"{result} transpose(x), dimensions={{{order}}}"
        found[f"transpose {given} {order}"] = _unary("transpose", given, text)
    found["transpose plus one f32[4096,4096]"] = _program(
        "transposed",
        """  x = f32[4096,4096] parameter(0)
  y = f32[4096,4096] parameter(1)
  t = f32[4096,4096] transpose(x), dimensions={1,0}
  ROOT r = f32[4096,4096] add(t, y)""",
    )
    return found


def _movements() -> dict[str, str]:
    found = {}
    found["pad 3x3 borders f32[32,56,56,64]"] = _unary(
        "padded", "f32[32,56,56,64]", "f32[32,58,58,64] pad(x, z), padding=0_0x1_1x1_1x0_0"
    )
    found["pad f32[32,64,56,56]"] = _unary(
        "padded", "f32[32,64,56,56]", "f32[32,64,58,58] pad(x, z), padding=0_0x0_0x1_1x1_1"
    )
    found["pad end f32[1000,1000]"] = _unary(
        "padded", "f32[1000,1000]", "f32[1000,1024] pad(x, z), padding=0_0x0_24"
    )
    found["reverse f32[1000,4096]"] = _unary(
        "reversed", "f32[1000,4096]", "f32[1000,4096] reverse(x), dimensions={1}"
    )
    found["slice step 2 f32[1000,8192]"] = _unary(
        "sliced", "f32[1000,8192]", "f32[1000,4096] slice(x), slice={[0:1000], [0:8192:2]}"
    )
    found["repeat f32[1000,1024] 4 times"] = _program(
        "repeated",
        """  x = f32[1000,1024] parameter(0)
  b = f32[1000,1024,4] broadcast(x), dimensions={0,1}
  ROOT r = f32[1000,4096] reshape(b)""",
    )
    found["tile f32[1000,1024] 4 times"] = _program(
        "tiled",
        """  x = f32[1000,1024] parameter(0)
  b = f32[1000,4,1024] broadcast(x), dimensions={0,2}
  ROOT r = f32[1000,4096] reshape(b)""",
    )
    found["concatenate 3 of f32[1000,1000]"] = _program(
        "joined",
        """  x = f32[1000,1000] parameter(0)
  y = f32[1000,1000] parameter(1)
  z = f32[1000,1000] parameter(2)
  ROOT r = f32[1000,3000] concatenate(x, y, z), dimensions={1}""",
    )
    return found


def _points() -> dict[str, str]:
    found = {}
    found["gelu of f32[4096,4096]"] = _program(
        "gelu",
        """  x = f32[4096,4096] parameter(0)
  c = f32[] constant(0.70710678)
  cb = f32[4096,4096] broadcast(c), dimensions={}
  h = f32[] constant(0.5)
  hb = f32[4096,4096] broadcast(h), dimensions={}
  o = f32[] constant(1)
  ob = f32[4096,4096] broadcast(o), dimensions={}
  m = f32[4096,4096] multiply(x, cb)
  t = f32[4096,4096] tanh(m)
  p = f32[4096,4096] add(t, ob)
  q = f32[4096,4096] multiply(x, hb)
  ROOT r = f32[4096,4096] multiply(q, p)""",
    )
    found["rope bf16[8,1024,16,128]"] = _program(
        "rope",
        """  x = bf16[8,1024,16,128] parameter(0)
  s = f32[1024,64] parameter(1)
  c = f32[1024,64] parameter(2)
  f = f32[8,1024,16,128] convert(x)
  a = f32[8,1024,16,64] slice(f), slice={[0:8], [0:1024], [0:16], [0:64]}
  b = f32[8,1024,16,64] slice(f), slice={[0:8], [0:1024], [0:16], [64:128]}
  sb = f32[8,1024,16,64] broadcast(s), dimensions={1,3}
  cb = f32[8,1024,16,64] broadcast(c), dimensions={1,3}
  ac = f32[8,1024,16,64] multiply(a, cb)
  bs = f32[8,1024,16,64] multiply(b, sb)
  as = f32[8,1024,16,64] multiply(a, sb)
  bc = f32[8,1024,16,64] multiply(b, cb)
  d = f32[8,1024,16,64] subtract(ac, bs)
  g = f32[8,1024,16,64] add(as, bc)
  j = f32[8,1024,16,128] concatenate(d, g), dimensions={3}
  ROOT r = bf16[8,1024,16,128] convert(j)""",
    )
    return found


def _gathers() -> dict[str, str]:
    rows = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1"
    one = "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1"
    index = """  k = s32[8192] iota(), iota_dimension=0
  m = s32[] constant(2654435)
  mb = s32[8192] broadcast(m), dimensions={}
  p = s32[8192] multiply(k, mb)
  h = s32[] constant(9999)
  hb = s32[8192] broadcast(h), dimensions={}
  i = s32[8192] and(p, hb)
"""
    found = {}
    for width in (768, 64, 30, 4):
        found[f"embedding rows of {width}"] = _program(
            "embedding",
            f"""  x = f32[10000,{width}] parameter(0)
{index}  ROOT r = f32[8192,{width}] gather(x, i), {rows}, slice_sizes={{1,{width}}}""",
        )
        inserted = "update_window_dims={1}, inserted_window_dims={0}"
        found[f"scatter-add rows of {width}"] = _program(
            "scattered",
            f"""  x = f32[10000,{width}] parameter(0)
  u = f32[8192,{width}] parameter(1)
{index}  ROOT r = f32[10000,{width}] scatter(x, i, u), {inserted},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add_f""",
        )
    found["gather of 8192 scalars"] = _program(
        "gathered",
        f"  x = f32[10000] parameter(0)\n{index}"
        f"  ROOT r = f32[8192] gather(x, i), {one}, slice_sizes={{1}}",
    )
    found["histogram of 8192"] = _program(
        "histogram",
        f"""  z = f32[] constant(0)
  x = f32[10000] broadcast(z), dimensions={{}}
  o = f32[] constant(1)
  u = f32[8192] broadcast(o), dimensions={{}}
{index}  ROOT r = f32[10000] scatter(x, i, u), update_window_dims={{}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add_f""",
    )
    return found


def _windows() -> dict[str, str]:
    found = {}
    for given, size, pad in (
        ("f32[256,4096]", "1x4096", "0_0x4095_0"),
        ("f32[1000000]", "1000000", "999999_0"),
        ("f32[4096,256]", "4096x1", "4095_0x0_0"),
    ):
        text = f"{given} reduce-window(x, z), window={{size={size} pad={pad}}}, to_apply=add_f"
        found[f"cumulative sum {given} {size}"] = _unary("cumsum", given, text)
    for kind in ("add_f", "max_f"):
        text = "f32[32,56,56,64] reduce-window(x, z), window={size=1x2x2x1 stride=1x2x2x1}"
        found[f"pool NHWC 2x2 {kind}"] = _unary(
            "pool", "f32[32,112,112,64]", f"{text}, to_apply={kind}"
        )
        text = "f32[32,64,56,56] reduce-window(x, z), "
        text += "window={size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1}"
        found[f"pool NCHW 3x3 {kind}"] = _unary(
            "pool", "f32[32,64,112,112]", f"{text}, to_apply={kind}"
        )
    found["max pool gradient NHWC 2x2"] = _program(
        "poolgrad",
        """  x = f32[32,112,112,64] parameter(0)
  s = f32[32,56,56,64] parameter(1)
  z = f32[] constant(0)
  ROOT r = f32[32,112,112,64] select-and-scatter(x, s, z),
    window={size=1x2x2x1 stride=1x2x2x1}, select=ge_f, scatter=add_f""",
    )
    return found


def _losses() -> dict[str, str]:
    """What lost to XLA:CPU once, or still does."""
    found = {}
    for size in (2, 3, 4, 8):
        found[f"10000 of {size}x{size} times a vector"] = _program(
            "matvec",
            f"""  a = f32[10000,{size},{size}] parameter(0)
  b = f32[10000,{size}] parameter(1)
  ROOT r = f32[10000,{size}] dot(a, b), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}""",
        )
    found["repeat 2x2 NCHW f32[8,64,56,56]"] = _program(
        "repeated",
        """  x = f32[8,64,56,56] parameter(0)
  b = f32[8,64,56,2,56,2] broadcast(x), dimensions={0,1,2,4}
  ROOT r = f32[8,64,112,112] reshape(b)""",
    )
    for kind in ("add_f", "max_f"):
        text = "f32[8,256,7,7] reduce-window(x, z), "
        text += "window={size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1}"
        found[f"pool NCHW 3x3 of 14x14 {kind}"] = _unary(
            "pool", "f32[8,256,14,14]", f"{text}, to_apply={kind}"
        )
    found["softmax 256x32000 and its maximum"] = _program(
        "softmax",
        """  x = f32[256,32000] parameter(0)
  low = f32[] constant(-inf)
  top = f32[256] reduce(x, low), dimensions={1}, to_apply=max_f
  lows = f32[256] broadcast(low), dimensions={}
  most = f32[256] maximum(top, lows)
  rows = f32[256,32000] broadcast(most), dimensions={0}
  away = f32[256,32000] subtract(x, rows)
  e = f32[256,32000] exponential(away)
  ROOT r = (f32[256], f32[256,32000]) tuple(top, e)""",
    )
    found["int8 256x512 times 512x256"] = _program(
        "product",
        """  a = s8[256,512] parameter(0)
  b = s8[512,256] parameter(1)
  ROOT r = s32[256,256] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    )
    found["real spectrum of 512 rows of 1024"] = _program(
        "spectrum",
        """  x = f32[512,1024] parameter(0)
  ROOT r = c64[512,513] fft(x), fft_type=RFFT, fft_length={1024}""",
    )
    return found


def _loops() -> dict[str, str]:
    scan = _program(
        "scan",
        """  m = f32[3,3] parameter(0)
  i = s32[] constant(0)
  z = f32[] constant(0)
  o = f32[2000,3] broadcast(z), dimensions={}
  t = (s32[], f32[3,3], f32[2000,3]) tuple(i, m, o)
  w = (s32[], f32[3,3], f32[2000,3]) while(t), condition=cond, body=body
  ROOT r = f32[2000,3] get-tuple-element(w), index=2""",
        _SCAN_BODY,
    )
    return {"scan of 2000 steps of 3x3": scan}


PROGRAMS: dict[str, str] = {
    **_reductions(),
    **_transposes(),
    **_movements(),
    **_points(),
    **_gathers(),
    **_windows(),
    **_losses(),
    **_loops(),
}
