"""Every elementwise primitive on the types it admits, special values included."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.peer.programs.registry import add, normal, raw, special, uniform, whole

FLOATS = "float32 float64 float16 bfloat16".split()
SMALL = """float8_e5m2 float8_e4m3fn float8_e4m3b11fnuz float8_e5m2fnuz float8_e4m3fnuz float8_e4m3
 float8_e3m4 float8_e8m0fnu float4_e2m1fn""".split()
INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
NARROW = "int4 uint4 int2 uint2".split()
COMPLEX = "complex64 complex128".split()

REAL = """abs ceil cos cosh erf erfc exp exp2 expm1 floor is_finite lgamma log log1p logistic neg
 round rsqrt sign sin sinh sqrt square tan tanh cbrt atan asinh""".split()
INSIDE = "acos asin atanh erf_inv".split()
FEW = "digamma bessel_i0e bessel_i1e acosh".split()


def unary_real() -> None:
    for of in FLOATS:
        for name in REAL:
            if not (name == "lgamma" and of == "float64"):
                add(f"elementwise/{name}-{of}", getattr(lax, name), special(of), slack=4)
            add(f"elementwise/{name}-{of}-normal", getattr(lax, name), normal(7, 3, of=of), slack=4)
        for name in INSIDE:
            x = uniform(11, of=of, low=-0.95, high=0.95)
            add(f"elementwise/{name}-{of}", getattr(lax, name), x, slack=4)
    for of in ("float32", "float64"):
        for name in FEW:
            x = uniform(11, of=of, low=1.1, high=5)
            add(f"elementwise/{name}-{of}", getattr(lax, name), x, slack=8)
    away, even = lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN
    for of in FLOATS:
        add(f"elementwise/round-away-{of}", lambda x: lax.round(x, away), special(of))
        add(f"elementwise/round-even-{of}", lambda x: lax.round(x, even), special(of))


def unary_complex() -> None:
    names = """abs cos cosh exp expm1 log log1p neg sin sinh sqrt rsqrt tan tanh sign real imag conj
     logistic square asin acos atan asinh acosh atanh""".split()
    for of in COMPLEX:
        for name in names:
            add(f"elementwise/{name}-{of}", getattr(lax, name), normal(9, of=of), slack=10)
    add("elementwise/complex-32", lax.complex, normal(4), normal(4, seed=1))
    add("elementwise/complex-64", lax.complex, normal(4, of="float64"), normal(4, of="float64"))


def corners(of: str) -> np.ndarray:
    """Every pair of special real and imaginary parts."""
    part = np.float32 if of == "complex64" else np.float64
    parts = np.array([0, -0.0, 1, -1, 0.5, -2.5, np.inf, -np.inf, np.nan, 1e9, 1e-9, 3], part)
    made = np.empty(parts.size**2, of)
    made.real, made.imag = np.repeat(parts, parts.size), np.tile(parts, parts.size)
    return made


def complex_corners() -> None:
    names = """abs cos cosh exp expm1 log log1p neg sin sinh sqrt rsqrt tan tanh sign real imag conj
     logistic square asin acos atan asinh acosh atanh""".split()
    for of in COMPLEX:
        x = corners(of)
        for name in names:
            add(f"elementwise/{name}-{of}-corners", getattr(lax, name), x, slack=10)
        y = x[np.abs(x) < 100][::3] if of == "complex64" else x[::5]
        left, right = np.repeat(y, y.size), np.tile(y, y.size)
        for name in "add sub mul div pow eq".split():
            label = f"elementwise/{name}-{of}-corners"
            add(label, getattr(lax, name), left, right, slack=10)


def binary_real() -> None:
    names = "add sub mul div rem max min pow atan2 nextafter".split()
    for of in FLOATS:
        x = special(of)
        left, right = np.repeat(x, x.size), np.tile(x, x.size)
        for name in names:
            if name == "nextafter" and of in ("float16", "bfloat16"):
                continue
            add(f"elementwise/{name}-{of}", getattr(lax, name), left, right, slack=4)
        for name in "eq ne lt le gt ge".split():
            add(f"elementwise/{name}-{of}", getattr(lax, name), left, right)
        for power in (0, 1, 2, 3, 7, -1, -2, -5):
            y = normal(6, of=of)
            label = f"elementwise/integer-pow-{power}-{of}"
            add(label, lambda x, p=power: lax.integer_pow(x, p), y, slack=4)
    for of in COMPLEX:
        for name in "add sub mul div pow eq ne".split():
            x, y = normal(5, 2, of=of), normal(5, 2, of=of, seed=4)
            add(f"elementwise/{name}-{of}", getattr(lax, name), x, y, slack=10)


def small_floats() -> None:
    for of in SMALL:
        every = raw(64, of=of)
        for to in ("float32", "float16", "int32", "bfloat16"):
            label = f"elementwise/convert-{of}-{to}"
            if to == "int32":
                every = uniform(9, of=of, low=1, high=4)
            add(label, lambda x, to=to: x.astype(to), every)
        x = np.concatenate([normal(40, scale=20), normal(20, scale=0.01), special("float32")])
        for source in ("float32", "float64", "bfloat16", "float16", "int32"):
            values = whole(30, high=90) if source == "int32" else x.astype(source)
            label = f"elementwise/convert-{source}-{of}"
            add(label, lambda x, of=of: x.astype(of), values)
    for of in SMALL:
        for name in "add mul sub div max min rem pow atan2".split():
            x, y = normal(20, of=of), normal(20, of=of, seed=3)
            add(f"elementwise/{name}-{of}", getattr(lax, name), x, y)
        # XLA takes the subnormal numbers of this type for zeros, which it has no bits for.
        values = raw(256, of=of)[10:] if of != "float8_e8m0fnu" else uniform(64, of=of, high=9)
        for name in REAL:
            if not ((of == "float8_e8m0fnu" and name == "neg") or name in ("erfc", "lgamma")):
                add(f"elementwise/{name}-{of}", getattr(lax, name), values)


def integers() -> None:
    for of in INTEGERS:
        x, y = raw(40, of=of), raw(40, of=of, seed=1)
        y[:6] = [0, 0, 1, 1, 2, 3]
        if "u" not in of:
            x[6:8], y[6:8] = np.iinfo(of).min, -1
        for name in "add sub mul div rem max min and or xor eq lt ge".split():
            function = getattr(lax, f"bitwise_{name}" if name in ("and", "or", "xor") else name)
            add(f"elementwise/{name}-{of}", function, x, y)
        for name in "population_count clz bitwise_not sign neg".split():
            add(f"elementwise/{name}-{of}", getattr(lax, name), x)
        amounts = (np.arange(40) % 70).astype(of)
        for name in "shift_left shift_right_logical shift_right_arithmetic".split():
            add(f"elementwise/{name}-{of}", getattr(lax, name), x, amounts)
        add(f"elementwise/integer-pow-{of}", lambda x: lax.integer_pow(x, 5), x)
        add(f"elementwise/pow-{of}", jnp.power, x, (np.arange(40) % 9).astype(of))
        add(f"elementwise/mulhi-{of}", lax.mulhi, x, y)
        for to in ("float32", "bfloat16", "int8", "uint32", "bool", "complex64", "int4"):
            add(f"elementwise/convert-{of}-{to}", lambda x, to=to: x.astype(to), x)
    for of in NARROW:
        x, y = whole(16, of=of), whole(16, of=of, seed=2)
        for name in "add sub mul max min and or xor eq lt".split():
            function = getattr(lax, f"bitwise_{name}" if name in ("and", "or", "xor") else name)
            add(f"elementwise/{name}-{of}", function, x, y)
        for name in "div rem".split():
            add(f"elementwise/{name}-{of}", getattr(lax, name), x, whole(16, of=of, low=1))
        for name in "clz bitwise_not sign neg".split():
            add(f"elementwise/{name}-{of}", getattr(lax, name), x)
        for name in "shift_left shift_right_logical shift_right_arithmetic".split():
            add(f"elementwise/{name}-{of}", getattr(lax, name), x, whole(16, of=of, low=0, high=3))
        for to in ("float32", "int8", "uint32", "int32"):
            add(f"elementwise/convert-{of}-{to}", lambda x, to=to: x.astype(to), x)
    flags, others = whole(9, of="bool", high=1), whole(9, of="bool", high=1, seed=1)
    for name in "bitwise_and bitwise_or bitwise_xor eq ne lt max min add mul".split():
        function = getattr(jnp, {"add": "logical_or", "mul": "logical_and"}.get(name, ""), None)
        add(f"elementwise/{name}-bool", function or getattr(lax, name), flags, others)
    add("elementwise/not-bool", lax.bitwise_not, flags)


def conversions() -> None:
    for of in FLOATS:
        x = np.concatenate([special(of), normal(30, of=of, scale=300)])
        for to in FLOATS + INTEGERS + ["bool", "complex64"]:
            if to == of:
                continue
            add(f"elementwise/convert-{of}-{to}", lambda x, to=to: x.astype(to), x)
    for of in COMPLEX:
        for to in COMPLEX:
            add(f"elementwise/convert-{of}-{to}", lambda x, to=to: x.astype(to), normal(5, of=of))
    pairs = [("float32", "int32"), ("float32", "uint16"), ("uint8", "float64"), ("int16", "uint32")]
    pairs += [("bfloat16", "uint16"), ("float16", "int8"), ("float64", "uint32"), ("int8", "uint8")]
    for of, to in pairs:
        # Widening takes a last dimension of as many elements as make one.
        ratio = jnp.dtype(to).itemsize // jnp.dtype(of).itemsize
        dims = (3, 16, ratio) if ratio > 1 else (3, 16)
        function = lambda x, to=to: lax.bitcast_convert_type(x, to)  # noqa: E731
        add(
            f"elementwise/bitcast-{of}-{to}-raw",
            function,
            whole(*dims, of=of, low=0, high=100) if "float" not in of else normal(*dims, of=of),
        ) if to != "float64" else None
    x = normal(50)
    for exponent, mantissa in ((5, 10), (8, 7), (4, 3), (3, 2), (8, 23), (5, 2), (2, 1)):
        label = f"elementwise/reduce-precision-{exponent}-{mantissa}"
        add(
            label,
            lambda x, e=exponent, m=mantissa: lax.reduce_precision(x, e, m),
            np.concatenate([x * 100, special()]),
        )


def mixed() -> None:
    special_values = special("float32")
    total = lambda x, y: (lax.eq_to_p.bind(x, y), lax.lt_to_p.bind(x, y), lax.le_to_p.bind(x, y))  # noqa: E731
    left, right = np.repeat(special_values, 18), np.tile(special_values, 18)
    add("elementwise/total-order", total, left, right)
    x = normal(6, scale=4)
    add("elementwise/clamp-scalar", lambda x: lax.clamp(np.float32(-1), x, np.float32(2)), x)
    add("elementwise/clamp-arrays", lax.clamp, x - 1, x * 0, x + 1)
    add("elementwise/clamp-int", lambda x: lax.clamp(np.int32(-3), x, np.int32(3)), whole(8))
    flags = whole(6, of="bool", high=1)
    add("elementwise/select", lax.select, flags, x, -x)
    add("elementwise/select-scalar", lambda p, x, y: lax.select(p, x, y), np.array(True), x, -x)
    which = whole(5, low=0, high=2)
    parts = [normal(5, seed=k) for k in range(3)]
    add("elementwise/select-n", lambda w, *p: lax.select_n(w, *p), which, *parts)
    for name, low in (("igamma", 0.2), ("igammac", 0.2), ("random_gamma_grad", 0.2)):
        a, b = uniform(6, low=low, high=4), uniform(6, low=low, high=4, seed=2)
        add(f"elementwise/{name}", getattr(lax, name), a, b, slack=10)
    a, b = uniform(5, low=0.5, high=3), uniform(5, low=0.5, high=3, seed=5)
    add("elementwise/betainc", lax.betainc, a, b, uniform(5), slack=10)
    add("elementwise/zeta", lax.zeta, a + 1, b, slack=10)
    add("elementwise/polygamma", lax.polygamma, np.float32([1, 2, 0, 1, 3]), b + 1, slack=10)
    for dims in ((), (0,), (0, 3), (1, 1, 1, 1, 1, 1), (2, 1, 3, 1, 2, 2)):
        label = "x".join(map(str, dims)) or "scalar"
        add(f"elementwise/shape-{label}", lambda x: jnp.sin(x) * x + 1, normal(*dims))
    for name in "gelu relu silu softplus mish selu elu celu hard_tanh log_sigmoid glu".split():
        add(f"elementwise/nn-{name}", getattr(jax.nn, name), normal(6, 4))
    for name in "sinc i0 deg2rad heaviside logaddexp logaddexp2 hypot copysign ldexp fmod".split():
        function = getattr(jnp, name)
        two = name in ("heaviside", "logaddexp", "logaddexp2", "hypot", "copysign", "fmod")
        if name == "ldexp":
            add("elementwise/np-ldexp", function, normal(5), whole(5))
        else:
            arguments = (normal(7), normal(7, seed=9)) if two else (normal(7),)
            add(f"elementwise/np-{name}", function, *arguments)
    for name in "gcd lcm floor_divide remainder divmod bitwise_count power".split():
        x, y = whole(20, high=60, low=1), whole(20, high=12, low=1, seed=3)
        given = (x,) if name == "bitwise_count" else (x, y % 5 + 1)
        add(f"elementwise/np-{name}", getattr(jnp, name), *given)
    add("elementwise/frexp", jnp.frexp, special())
    add("elementwise/modf", jnp.modf, special())


unary_real()
unary_complex()
complex_corners()
binary_real()
small_floats()
integers()
conversions()
mixed()
