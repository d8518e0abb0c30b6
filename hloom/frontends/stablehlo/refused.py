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
