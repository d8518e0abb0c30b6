"""hloom.torch: models of PyTorch, through torch.export and torchax."""

import shutil

import pytest

import hloom
from hloom.aot.tensors_in_file import read_tensors
from hloom.base.guarding import GUARDING

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
try:
    import torchax  # noqa: F401
except Exception as error:
    pytest.skip(f"no torchax that works with this PyTorch: {error}", allow_module_level=True)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(10, 8)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.out = torch.nn.Linear(8, 4)

    def forward(self, i, x):
        h = self.layer(self.words(i) + x)
        return {"out": torch.relu(self.out(h)), "sum": h.sum()}


def test_a_model_gives_what_pytorch_gives():
    model = Model().eval()
    given = torch.randint(0, 10, (2, 5)), torch.randn(2, 5, 8)
    found, wanted = hloom.torch.compile(model, *given)(*given), model(*given)
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-4, atol=1e-4)


def test_other_sizes_are_refused():
    compiled = hloom.torch.compile(torch.nn.Linear(3, 2), torch.randn(4, 3))
    with pytest.raises(hloom.HloError, match=r"float32\[5,3\]"):
        compiled(torch.randn(5, 3))


class Mixed(torch.nn.Module):
    def forward(self, x, times, flag=None, scale=2.0):
        return {"y": x.double() * times * scale, "flag": flag, "times": times} | {
            str(t): x.to(t) for t in (torch.bool, torch.float16, torch.bfloat16, torch.int64)
        }


def test_types_are_kept_and_what_is_no_tensor_is_part_of_the_program():
    x = torch.linspace(-2, 2, 6)
    compiled = hloom.torch.compile(Mixed(), x, 3, None, keywords={"scale": 0.5})
    found, wanted = compiled(x, 3, None, scale=0.5), Mixed()(x, 3, None, 0.5)
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        assert type(found[name]) is type(value)
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(found[name], value)
    with pytest.raises(hloom.HloError, match="3"):
        compiled(x, 4, None, scale=0.5)


class Frequencies(torch.nn.Module):
    """What JAX's rules of types, unlike PyTorch's, make f64."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(15, 4)

    def forward(self, x, i):
        waves = (x[..., None] * 2.0 ** torch.arange(5.0)).flatten(-2).sin()
        return self.last(waves), i / 3, x ** i[:1]


def test_values_have_the_types_that_pytorch_gives_them():
    x, i = torch.randn(4, 3), torch.arange(4)
    model = Frequencies().eval()
    dots = [y for y in hloom.torch.lower(model, x, i).entry.instructions if y.opcode == "dot"]
    assert {y.shape.dtype.name for y in dots} == {"f32"}
    for found, wanted in zip(hloom.torch.compile(model, x, i)(x, i), model(x, i), strict=True):
        torch.testing.assert_close(found, wanted)


def test_recurrent_networks_and_attention_on_their_own():
    x = torch.randn(2, 5, 8)
    lstm = torch.nn.LSTM(8, 4, num_layers=2, batch_first=True, bidirectional=True).eval()
    torch.testing.assert_close(hloom.torch.compile(lstm, x)(x)[0], lstm(x)[0].detach())

    class Heads(torch.nn.Module):
        def forward(self, x):
            q = x.view(2, 5, 2, 4).transpose(1, 2)
            y = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
            return y.transpose(1, 2).reshape(10, 8)

    torch.testing.assert_close(hloom.torch.compile(Heads(), x)(x), Heads()(x))


def test_arguments_that_change_are_refused():
    class Adds(torch.nn.Module):
        def forward(self, x):
            return x.add_(1) * 2

    with pytest.raises(hloom.HloError, match="changes its arguments"):
        hloom.torch.lower(Adds(), torch.randn(3))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory")
def test_a_c_library(tmp_path):
    model = Model().eval()
    i, x = torch.randint(0, 10, (2, 5)), torch.randn(2, 5, 8)
    path = tmp_path / "libmodel.so"
    library = hloom.torch.export_c(model, i, x, path=path, header_path=tmp_path / "model.h")
    assert library.inputs == ("i", "x")
    wanted = model(i, x)
    results = hloom.load_library(path)(i=i.numpy(), x=x.numpy())
    for mine, his in zip(results.values(), wanted.values(), strict=True):
        torch.testing.assert_close(torch.from_numpy(mine), his.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory")
@pytest.mark.parametrize("captured", [False, True], ids=["module", "exported"])
def test_weights_by_name_and_sizes_in_buckets(tmp_path, captured):
    """The file has the names of `state_dict`; sizes are named as torch.export has them."""
    layers = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)
    model = torch.nn.Sequential(*layers).eval()
    batch = torch.export.Dim("batch")
    shapes = ({0: batch},)
    source = torch.export.export(model, (torch.zeros(4, 3),), dynamic_shapes=shapes)
    file = tmp_path / "m.safetensors"
    library = hloom.torch.export_c(
        source if captured else model,
        torch.zeros(1, 3),
        path=tmp_path / "libm.so",
        header_path=tmp_path / "m.h",
        weights=file,
        buckets={"batch": (1, 8)},
        dynamic_shapes=shapes,
        argument_names=["x"],
    )
    assert library.buckets is not None and library.buckets.why_exact == ""
    assert set(read_tensors(file)) == set(model.state_dict())
    function = hloom.load_library(library.path, weights=file)
    for rows in (1, 5, 8):
        x = torch.randn(rows, 3)
        (y,) = function(x=x.numpy()).values()
        torch.testing.assert_close(torch.from_numpy(y), model(x).detach(), rtol=1e-4, atol=1e-4)


def test_buckets_need_names_of_sizes(tmp_path):
    with pytest.raises(hloom.HloError, match="which dimensions have these sizes"):
        hloom.torch.export_c(
            torch.nn.Linear(3, 2), torch.zeros(1, 3), path=tmp_path / "libm.so",
            buckets={"batch": (1, 8)},
        )  # fmt: skip


def test_tensors_made_by_the_model_and_buffers_of_their_sizes():
    """PyTorch lists them in another order than the graph takes them in."""

    class Tables(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("shift", torch.tensor([10.0, 20.0]), persistent=False)
            self.register_buffer("kept", torch.tensor([100.0, 200.0]))

        def forward(self, x):
            last = x[:, [-1, 0]]  # an index that is a tensor of the model's code
            return last * torch.tensor([2.0, 3.0]) + self.shift + self.kept * torch.tensor([0.5, 1])

    x = torch.arange(6.0).reshape(2, 3)
    model = Tables().eval()
    torch.testing.assert_close(hloom.torch.compile(model, x)(x), model(x))


@pytest.mark.parametrize("padding", ["valid", "same", 1, (0, 2)])
def test_padding_of_convolutions_by_name(padding):
    x = torch.randn(1, 3, 9, 10)
    model = torch.nn.Conv2d(3, 4, 3, padding=padding).eval()
    compiled = hloom.torch.compile(model, x)
    torch.testing.assert_close(compiled(x), model(x).detach(), rtol=1e-4, atol=1e-5)


def test_experts_as_transformers_computes_them():
    """Rows sorted by expert, of which one has none, each by its expert's matrix."""

    @torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
    def grouped(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        starts = [0, *offs.tolist()[:-1]]
        parts = [input[a:b] @ w for a, b, w in zip(starts, offs.tolist(), weight)]
        return torch.cat(parts)

    @grouped.register_fake
    def _(input, weight, offs):
        return input.new_empty(input.shape[0], weight.shape[2])

    class Experts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 6, 5))

        def forward(self, x, counts):
            return grouped(x, self.weight, counts.cumsum(0).to(torch.int32))

    x, counts = torch.randn(9, 6), torch.tensor([3, 0, 5, 1])
    model = Experts().eval()
    compiled = hloom.torch.compile(model, x, counts)
    torch.testing.assert_close(compiled(x, counts), model(x, counts).detach())


@pytest.mark.parametrize(
    ("groups", "sizes", "of", "affine"),
    [
        (1, (2, 6, 5, 7), torch.float32, True),
        (3, (2, 6, 5, 7), torch.float32, True),
        (6, (1, 6, 9), torch.float32, False),
        (2, (3, 6), torch.float64, True),
        (2, (2, 6, 3, 4, 5), torch.bfloat16, True),
    ],
)
def test_norms_of_groups(groups, sizes, of, affine):
    norm = torch.nn.GroupNorm(groups, 6, affine=affine, dtype=of)
    if affine:
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    x = torch.randn(sizes).to(of) * 3 + 2
    found, wanted = hloom.torch.compile(norm.eval(), x)(x), norm(x)
    rtol = 2e-2 if of is torch.bfloat16 else 1e-5
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=rtol)


def test_norms_between_convolutions_move_no_images():
    """Images lie as convolutions want them; a group of all features is no reason for another
    order."""
    conv = torch.nn.Conv2d
    layers = [conv(3, 16, 3), torch.nn.GroupNorm(1, 16), torch.nn.ReLU(), conv(16, 16, 3)]
    layers += [torch.nn.GroupNorm(1, 16), torch.nn.ReLU(), conv(16, 8, 3)]
    x = torch.randn(2, 3, 20, 20)
    model = torch.nn.Sequential(*layers).eval()
    compiled = hloom.torch.compile(model, x)
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    text = compiled.executable.as_text("hlo")
    assert "f32[2,18,18,16]" in text
    assert "f32[2,16,18,18]" not in text and "f32[2,16,16,16]{3,2,1,0} transpose" not in text
