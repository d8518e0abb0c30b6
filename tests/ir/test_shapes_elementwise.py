"""Shapes of operations on each element: types admitted, no implicit broadcast, dynamism."""

import pytest

from tests.ir.shape_rules import check, lines

RULES = """
abs(c128[3]) -> f64[3]
abs(s4[3]) -> s4[3]
abs(pred[3]) -> ! signed or complex
cbrt(c64[3]) -> ! floating-point
exponential(f8e5m2[2,<=3]) -> f8e5m2[2,<=3]
is-finite(bf16[3]) -> pred[3]
is-finite(c64[3]) -> ! floating-point
real(f32[3]) -> f32[3]
imag(c64[<=3]) -> f32[<=3]
not(pred[3]) -> pred[3]
not(f32[3]) -> ! integer or pred
negate(u64[3]) -> u64[3]
sign(c64[3]) -> c64[3]
popcnt(f32[3]) -> ! integer
tanh((f32[2])) -> ! must be an array, not (f32[2])
tanh(token[]) -> ! must be an array, not token[]
reduce-precision(f32[3]), exponent_bits=1, mantissa_bits=0 -> f32[3]
reduce-precision(f32[3]), exponent_bits=1, mantissa_bits=-1 -> ! mantissa bits
add(f32[4], f32[4]) -> f32[4]
add(f32[<=4], f32[4]) -> f32[<=4]
add(f32[4,5], f32[<=4,<=5]) -> f32[<=4,<=5]
add(f32[4], bf16[4]) -> f32[4]
add(bf16[4], f16[4]) -> bf16[4]
add(f32[4], f32[3]) -> ! f32[4] and f32[3]
add(f32[4], f32[1]) -> ! no implicit broadcast
add(f32[4], f32[]) -> ! no implicit broadcast
add(f32[4], f32[4,1]) -> ! different shapes
add(f32[4], s32[4]) -> ! different element types
add(f32[4], token[]) -> ! must be an array
add(f32[?], f32[5]) -> f32[5]
add(f32[?], f32[?]) -> f32[?]
subtract(pred[4], pred[4]) -> ! arithmetic
and(u1[4], u1[4]) -> u1[4]
and(f32[4], f32[4]) -> ! integer or pred
complex(f32[4], f32[4]) -> c64[4]
complex(f64[<=4], f64[4]) -> c128[<=4]
complex(bf16[4], bf16[4]) -> ! f32 or f64
compare(f32[4], bf16[4]), direction=EQ -> pred[4]
compare(u8[4], u8[4]), direction=EQ, type=SIGNED -> ! as UNSIGNED, not as SIGNED
compare(pred[4], pred[4]), direction=EQ, type=UNSIGNED -> pred[4]
compare(c64[4], c64[4]), direction=EQ, type=TOTALORDER -> ! as FLOAT
clamp(f32[], f32[<=4], f32[4]) -> f32[<=4]
clamp(f32[4], f32[], f32[4]) -> ! bounds
clamp(s32[], f32[4], s32[]) -> ! one element type
select(pred[], f32[<=4], f32[4]) -> f32[<=4]
select(pred[<=4], f32[4], bf16[4]) -> f32[<=4]
select(pred[4], f32[4,1], f32[4,1]) -> ! must be a scalar or have the shape
select(pred[], token[], token[]) -> ! must be an array
select(s32[], f32[4], f32[4]) -> ! pred elements
convert(f32[4]) -> ! must be given
"""


@pytest.mark.parametrize("rule", lines(RULES))
def test_shape(rule):
    check(rule)
