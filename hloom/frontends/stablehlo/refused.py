"""Operations that cannot be read, each with what can be done about it."""

from hloom.frontends.stablehlo.registry import refuse

refuse(
    "it computes on quantised types, which HLO does not have; stablehlo-legalize-quant-to-math "
    "makes integers and scales of them",
    "stablehlo.uniform_quantize",
    "stablehlo.uniform_dequantize",
)
refuse(
    "it is a step inside of how other operations are expanded and never in a program",
    "chlo._asin_acos_kernel",
)
refuse(
    "it is internal to Shardy's propagation and gone when that ends",
    "sdy.data_flow_edge",
    "sdy.func_data_flow_edge",
)
