"""Products: dot, einsum, convolution in all its forms, ragged dot, FFT, triangular solve."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.peer.programs.registry import add, normal, whole

FLOATS = "float32 float64 float16 bfloat16".split()
OTHERS = "int8 int32 uint8 complex64 complex128 float8_e4m3fn float8_e5m2".split()


def dots() -> None:
    for of in FLOATS + OTHERS:
        x, y = normal(3, 5, of=of), normal(5, 4, of=of, seed=1)
        wide = {"int8": "int32", "uint8": "int32", "bfloat16": "float32"}.get(of)
        if "float8" in of:
            wide = "float32"
        add(f"linear/dot-{of}", lambda x, y, w=wide: lax.dot(x, y, preferred_element_type=w), x, y)
        batch = (((2,), (1,)), ((0,), (0,)))
        x, y = normal(2, 3, 5, of=of), normal(2, 5, 4, of=of, seed=1)
        add(
            f"linear/batched-{of}",
            lambda x, y, w=wide, b=batch: lax.dot_general(x, y, b, preferred_element_type=w),
            x,
            y,
        )
    forms = {
        "two": ((2, 3, 4), (4, 3, 5), (((1, 2), (1, 0)), ((), ()))),
        "outer": ((3,), (4,), (((), ()), ((), ()))),
        "inner": ((6,), (6,), (((0,), (0,)), ((), ()))),
        "late-batch": ((3, 4, 2), (5, 2, 4), (((1,), (2,)), ((2,), (1,)))),
        "two-batch": ((2, 3, 4, 5), (3, 2, 5), (((3,), (2,)), ((0, 1), (1, 0)))),
        "empty": ((2, 0), (0, 3), (((1,), (0,)), ((), ()))),
    }
    for name, (left, right, how) in forms.items():
        add(
            f"linear/dot-{name}",
            lambda x, y, h=how: lax.dot_general(x, y, h),
            normal(*left),
            normal(*right, seed=1),
        )
    for to in ("float32", "bfloat16", "float64"):
        add(
            f"linear/dot-preferred-{to}",
            lambda x, y, t=to: lax.dot(x, y, preferred_element_type=t),
            normal(3, 9, of="bfloat16"),
            normal(9, 2, of="bfloat16"),
        )
    add(
        "linear/dot-mixed",
        lambda x, y: lax.dot_general(
            x, y, (((1,), (0,)), ((), ())), preferred_element_type=np.float32
        ),
        normal(3, 5, of="bfloat16"),
        normal(5, 4),
    )
    for precision in ("default", "high", "highest"):
        add(
            f"linear/precision-{precision}",
            lambda x, y, p=precision: jnp.dot(x, y, precision=p),
            normal(4, 8),
            normal(8, 3),
        )
    for form in (
        "ij,jk->ik",
        "bij,bjk->bik",
        "ii->i",
        "ij->ji",
        "ijk,ikl,lm->jm",
        "i,j->ij",
        "bhqd,bhkd->bhqk",
        "abc,cd,def->abef",
        "...ij,...jk->...ik",
        "ij,ij->",
    ):
        names = form.split("->")[0].split(",")
        sizes = dict(zip("abcdefhijklmq", (2, 3, 4, 2, 3, 2, 2, 3, 4, 5, 2, 3, 3)))
        if form == "ii->i":
            sizes["i"] = 3
        given = [
            normal(*((2,) if "." in n else ()), *(sizes[c] for c in n if c != "."), seed=k)
            for k, n in enumerate(names)
        ]
        add(f"linear/einsum-{form}", lambda *a, f=form: jnp.einsum(f, *a), *given)
    add(
        "linear/vectors",
        lambda x, y: (
            jnp.vdot(x, y),
            jnp.cross(x, y),
            jnp.outer(x, y),
            jnp.kron(x, y),
            jnp.inner(x, y),
            jnp.tensordot(x, y, 0),
        ),
        normal(3),
        normal(3, seed=1),
    )
    add("linear/power", lambda x: jnp.linalg.matrix_power(x, 5), normal(4, 4), slack=5)
    add(
        "linear/multi", lambda *a: jnp.linalg.multi_dot(a), normal(3, 4), normal(4, 5), normal(5, 2)
    )
    add(
        "linear/norms",
        lambda x: tuple(jnp.linalg.norm(x, o) for o in (None, "fro", 1, np.inf, -1)),
        normal(4, 5),
    )
    for sizes in ([3, 0, 5], [2, 2, 2], [8, 0, 0]):
        add(
            f"linear/ragged-{'-'.join(map(str, sizes))}",
            lax.ragged_dot,
            normal(8, 4),
            normal(3, 4, 5),
            np.array(sizes, np.int32),
        )


def convolutions() -> None:
    layouts = {
        "nchw": (("NCHW", "OIHW", "NCHW"), (2, 4, 7, 6), (6, 4, 3, 2)),
        "nhwc": (("NHWC", "HWIO", "NHWC"), (2, 7, 6, 4), (3, 2, 4, 6)),
        "odd": (("CWNH", "IHOW", "WNCH"), (4, 6, 2, 7), (4, 3, 6, 2)),
        "one": (("NWC", "WIO", "NWC"), (2, 9, 4), (3, 4, 6)),
        "three": (("NCDHW", "OIDHW", "NCDHW"), (1, 2, 4, 5, 4), (3, 2, 2, 3, 2)),
        "zero": (("NC", "OI", "NC"), (3, 4), (5, 4)),
    }
    for name, (numbers, left, right) in layouts.items():
        rank = len(left) - 2
        x, y = normal(*left), normal(*right, seed=1)
        options = {
            "valid": {"padding": "VALID"},
            "same-strided": {"padding": "SAME", "window_strides": (2,) * rank},
            "padded": {"padding": [(2, 1)] * rank},
            "negative": {"padding": [(-1, 2)] * rank},
            "left": {"padding": [(1, 0)] * rank, "lhs_dilation": (2,) * rank},
            "right": {"padding": [(2, 2)] * rank, "rhs_dilation": (2,) * rank},
            "all": {
                "padding": [(3, 1)] * rank,
                "window_strides": (2,) * rank,
                "lhs_dilation": (3,) * rank,
                "rhs_dilation": (2,) * rank,
            },
        }
        for case, given in options.items():
            given = {"window_strides": (1,) * rank, **given}
            add(
                f"linear/conv-{name}-{case}",
                lambda x, y, g=given, n=numbers: lax.conv_general_dilated(
                    x, y, dimension_numbers=n, **g
                ),
                x,
                y,
                slack=2,
            )
    x, numbers = normal(4, 7, 6, 4), ("NHWC", "HWIO", "NHWC")
    for groups in (1, 2, 4):
        y = normal(3, 2, 4 // groups, 8, seed=2)
        for of in (*FLOATS, "int32", "complex64"):
            add(
                f"linear/conv-groups-{groups}-{of}",
                lambda x, y, g=groups: lax.conv_general_dilated(
                    x, y, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=g
                ),
                x.astype(of),
                y.astype(of),
                slack=2,
            )
    for groups in (2, 4):
        add(
            f"linear/conv-batch-groups-{groups}",
            lambda x, y, g=groups: lax.conv_general_dilated(
                x, y, (1, 2), "SAME", dimension_numbers=numbers, batch_group_count=g
            ),
            x,
            normal(3, 2, 4, 8, seed=2),
            slack=2,
        )
    add(
        "linear/conv-preferred",
        lambda x, y: lax.conv_general_dilated(
            x, y, (1, 1), "SAME", dimension_numbers=numbers, preferred_element_type=np.float32
        ),
        normal(1, 5, 5, 2, of="bfloat16"),
        normal(3, 3, 2, 3, of="bfloat16"),
    )
    add(
        "linear/conv-int8",
        lambda x, y: lax.conv_general_dilated(
            x, y, (1, 1), "SAME", dimension_numbers=numbers, preferred_element_type=np.int32
        ),
        whole(1, 5, 5, 2, of="int8"),
        whole(3, 3, 2, 3, of="int8"),
    )
    for padding in ("SAME", "VALID"):
        add(
            f"linear/conv-transpose-{padding}",
            lambda x, y, p=padding: lax.conv_transpose(x, y, (2, 3), p),
            normal(1, 4, 5, 3),
            normal(3, 2, 3, 4),
            slack=2,
        )
    add(
        "linear/conv-local",
        lambda x, y: lax.conv_general_dilated_local(
            x, y, (1, 1), "VALID", (2, 2), dimension_numbers=("NCHW", "OIHW", "NCHW")
        ),
        normal(1, 2, 4, 4),
        normal(3, 8, 3, 3),
        slack=2,
    )
    add(
        "linear/patches",
        lambda x: lax.conv_general_dilated_patches(x, (2, 3), (1, 2), "SAME"),
        normal(1, 2, 5, 6),
    )
    for mode in ("full", "same", "valid"):
        add(
            f"linear/convolve-{mode}",
            lambda x, y, m=mode: (jnp.convolve(x, y, m), jnp.correlate(x, y, m)),
            normal(9),
            normal(4),
        )
    add(
        "linear/convolve2d",
        lambda x, y: jax.scipy.signal.convolve2d(x, y, "same"),
        normal(6, 7),
        normal(3, 2),
    )
    add(
        "linear/convolve-fft",
        lambda x, y: jax.scipy.signal.fftconvolve(x, y),
        normal(12),
        normal(5),
    )


def transforms() -> None:
    for of in ("complex64", "complex128"):
        for kind in "fft ifft fft2 ifft2 fftn ifftn hfft".split():
            for dims in ((4, 8), (3, 5), (2, 6, 7)):
                x = normal(*dims, of=of)
                label = f"linear/{kind}-{of}-{'x'.join(map(str, dims))}"
                add(label, lambda x, k=kind: getattr(jnp.fft, k)(x), x, slack=10)
    for of in ("float32", "float64"):
        for kind in "rfft rfft2 rfftn ihfft fft".split():
            for dims in ((4, 8), (3, 5), (2, 6, 7)):
                label = f"linear/{kind}-{of}-{'x'.join(map(str, dims))}"
                add(label, lambda x, k=kind: getattr(jnp.fft, k)(x), normal(*dims, of=of), slack=10)
    for length in (7, 8):
        add(
            f"linear/irfft-{length}",
            lambda x, n=length: jnp.fft.irfft(x, n),
            normal(3, 5, of="complex64"),
            slack=10,
        )
        add(
            f"linear/irfft2-{length}",
            lambda x, n=length: jnp.fft.irfft2(x, (4, n)),
            normal(2, 4, 5, of="complex64"),
            slack=10,
        )
    add(
        "linear/fft-shift",
        lambda x: (
            jnp.fft.fftshift(x),
            jnp.fft.ifftshift(x),
            jnp.fft.fftfreq(9),
            jnp.fft.rfftfreq(8),
        ),
        normal(3, 7),
    )
    add("linear/stft", lambda x: jax.scipy.signal.stft(x, nperseg=16)[2], normal(100), slack=10)


def matrices() -> None:
    """XLA:CPU calls LAPACK here; what it lowers to has no meaning of ours and is only read."""
    x = normal(4, 4) + 4 * np.eye(4, dtype=np.float32)
    add("linear/solve", jnp.linalg.solve, x, normal(4, 2), slack=5)
    add("linear/inverse", lambda x: (jnp.linalg.inv(x), jnp.linalg.det(x)), x, slack=5)
    add("linear/cholesky", lambda x: jnp.linalg.cholesky(x @ x.T), x, slack=5)
    add("linear/qr", jnp.linalg.qr, x, slack=5)
    add("linear/svd", lambda x: jnp.linalg.svd(x, compute_uv=False), x, slack=5)
    add("linear/eigh", lambda x: jnp.linalg.eigvalsh(x + x.T), x, slack=5)
    add("linear/expm", jax.scipy.linalg.expm, x / 8, slack=5)
    for lower in (True, False):
        for turned in (0, 1):
            add(
                f"linear/triangular-{lower}-{turned}",
                lambda a, b, low=lower, t=turned: jax.scipy.linalg.solve_triangular(
                    a, b, lower=low, trans=t
                ),
                x,
                normal(4, 3),
                slack=5,
            )


dots()
convolutions()
transforms()
matrices()
