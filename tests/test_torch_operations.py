"""hloom.torch: operations that torchax lacks, or writes as something else."""

import pytest

import hloom
from hloom.api import UsageError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
try:
    import torchax  # noqa: F401
except Exception as error:
    pytest.skip(f"no torchax that works with this PyTorch: {error}", allow_module_level=True)

F = torch.nn.functional


class Images(torch.nn.Module):
    def forward(self, x, kernel):
        resized = [
            F.interpolate(x, size=(3, 4), mode=mode, antialias=True, align_corners=corners)
            for mode, corners in (("bilinear", True), ("bicubic", False))
        ]
        return [
            *resized,
            F.avg_pool2d(x, 3, 2, ceil_mode=True),
            F.avg_pool2d(x, (3, 2), (2, 1), 1, ceil_mode=True, count_include_pad=False),
            F.avg_pool2d(x[0], 2, divisor_override=3),
            *F.adaptive_max_pool2d(x, (3, 5), return_indices=True),
            F.conv_transpose2d(x, kernel, stride=2, groups=2),
        ]


class Rows(torch.nn.Module):
    def forward(self, x, at, rows, whole):
        folds = [
            x.index_reduce(0, at, rows, fold, include_self=own)
            for fold in ("prod", "mean", "amax", "amin")
            for own in (False, True)
        ]
        bags = [
            F.embedding_bag(at, x, whole, mode=mode, padding_idx=2)
            for mode in ("sum", "mean", "max")
        ]
        line = x.sort()[0]
        return [
            *folds,
            *bags,
            torch.searchsorted(line, x, right=True),
            torch.searchsorted(line[0], x, out_int32=True),
            torch.repeat_interleave(x, whole, dim=0, output_size=5),
            F.one_hot(at, 5),
        ]


class Elements(torch.nn.Module):
    def forward(self, x, powers, turned):
        nothing = torch.full((3, 3), torch.nan)
        return [
            torch.ldexp(x, powers),
            x.view(torch.int16),
            x.view(torch.int16).view(torch.float32),
            torch.addmm(nothing, x, x, beta=0, alpha=2),
            torch.baddbmm(nothing[None], x[None], x[None], beta=0),
            F.rrelu(x),
            x + x[0, 0].item(),
            turned.angle() + torch.fft.fftfreq(3, 0.5),
        ]


class Matrices(torch.nn.Module):
    def forward(self, x, b):
        a = x @ x.mT + 3 * torch.eye(3)
        q, r = torch.linalg.qr(a)
        u, s, v = torch.linalg.svd(a)
        place, lower, upper = torch.linalg.lu(x)
        return [
            torch.linalg.cholesky(a),
            torch.linalg.solve(a, b),
            torch.linalg.inv(a),
            torch.linalg.det(a),
            torch.logdet(a),
            torch.linalg.eigvalsh(a),
            q @ r,
            (u * s[..., None, :]) @ v,
            place @ lower @ upper,
            torch.fft.irfft2(torch.complex(a, a), s=(3, 5), norm="ortho"),
        ]


CASES = [
    (Images, lambda: (torch.randn(2, 4, 6, 8), torch.randn(4, 3, 3, 3))),
    (
        Rows,
        lambda: (
            torch.randn(3, 4),
            torch.tensor([0, 2, 0, 1, 2]),
            torch.randn(5, 4),
            torch.tensor([0, 2, 3]),
        ),
    ),
    (Matrices, lambda: (torch.randn(2, 3, 3), torch.randn(2, 3, 2))),
    (
        Elements,  # of which the last is a view whose memory holds conjugates
        lambda: (
            torch.randn(3, 3),
            torch.tensor([[-3], [0], [4]]),
            torch.complex(torch.randn(3), torch.randn(3)).conj(),
        ),
    ),
]


@pytest.mark.parametrize("model, arguments", CASES, ids=[m.__name__ for m, _ in CASES])
def test_operations_are_those_of_pytorch(model, arguments):
    torch.manual_seed(0)
    model, given = model().eval(), arguments()
    for found, wanted in zip(
        hloom.torch.compile(model, *given)(*given), model(*given), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


class Slopes(torch.nn.Module):
    def forward(self, x):
        return F.rrelu(x, training=True)


class WithoutPivots(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.lu(x, pivot=False)[1]


@pytest.mark.parametrize(
    "model, message", [(Slopes, "random numbers"), (WithoutPivots, "without pivots")]
)
def test_what_is_not_compiled_is_refused_by_name(model, message):
    with pytest.raises(UsageError, match=message):
        hloom.torch.compile(model(), torch.randn(3, 3))
