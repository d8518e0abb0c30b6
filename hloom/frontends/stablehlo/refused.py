"""Operations that cannot be read, each with what can be done about it."""

from hloom.frontends.stablehlo.registry import refuse

refuse(
    "it is a step inside of how other operations are expanded and never in a program",
    "chlo._asin_acos_kernel",
)
refuse(
    "it is internal to Shardy's propagation and gone when that ends",
    "sdy.data_flow_edge",
    "sdy.func_data_flow_edge",
)
refuse(
    "HLO has no operation that leaves a reduction on one device of a group; stablehlo.all_reduce "
    "leaves it on all",
    "stablehlo.collective_reduce",
)
refuse("HLO has no powers and logarithms to base 2", "mhlo.exp2", "mhlo.log2")
