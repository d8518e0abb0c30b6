"""Operations that cannot be read, each with what can be done about it."""

from hloom.frontends.stablehlo.registry import refuse

refuse(
    "it is a step inside of how other operations are expanded and never in a program",
    "chlo._asin_acos_kernel",
)
