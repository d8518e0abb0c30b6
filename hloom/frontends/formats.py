"""Every form that a file can have."""

from hloom.frontends.stablehlo.recognise import FORMATS as STABLEHLO
from hloom.ir.proto.files import FORMATS as HLO

FORMATS = (*HLO, *STABLEHLO)
