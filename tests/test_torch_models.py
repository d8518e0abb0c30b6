"""hloom.torch: models of PyTorch, through torch.export and torchax."""

import pytest

import hloom

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


def test_buffers_that_change_are_refused():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3)).train()
    with pytest.raises(hloom.HloError, match=r"model.eval\(\)"):
        hloom.torch.lower(model, torch.randn(4, 3))


def test_other_sizes_are_refused():
    compiled = hloom.torch.compile(torch.nn.Linear(3, 2), torch.randn(4, 3))
    with pytest.raises(hloom.HloError, match=r"float32\[5,3\]"):
        compiled(torch.randn(5, 3))
