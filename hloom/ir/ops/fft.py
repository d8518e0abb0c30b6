"""Fourier transforms."""
# pyright: reportInvalidTypeForm=false, reportAssignmentType=false

from hloom.ir.kinds import Dims, enumeration
from hloom.ir.op import Operand, op

FftType = enumeration("fft type", "FFT", "IFFT", "RFFT", "IRFFT")


@op("fft")
class Fft:
    """Discrete Fourier transform over the last len(fft_length) dimensions."""

    x: Operand
    fft_type: FftType
    fft_length: Dims
