"""Fourier transforms."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.infer import linalg as infer
from hloom.ir.kinds import Dims, enumeration
from hloom.ir.op import Operand, op
from hloom.ir.traits import CHANGES_LAYOUT, LAYOUT_OF_OPERAND
from hloom.types.shape import Shape

FftType = enumeration("fft type", "FFT", "IFFT", "RFFT", "IRFFT")


@op("fft", LAYOUT_OF_OPERAND, CHANGES_LAYOUT)
class Fft:
    """Discrete Fourier transform over the last len(fft_length) dimensions."""

    x: Operand
    fft_type: FftType
    fft_length: Dims

    def shape(self, x: Shape) -> Shape:
        """The shape of x; RFFT gives complex and last/2 + 1 values in the last dimension, IRFFT
        takes as many and gives floats.
        """
        return infer.fft(x, self.fft_type, self.fft_length)
