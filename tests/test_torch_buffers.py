"""hloom.torch: models that write to their buffers, as they do in eager mode."""

import copy

import pytest

import hloom
from hloom.api import UsageError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
try:
    import torchax  # noqa: F401
except Exception as error:
    pytest.skip(f"no torchax that works with this PyTorch: {error}", allow_module_level=True)


class Cache(torch.nn.Module):
    """Attention of one position to what a cache of keys and values holds."""

    def __init__(self):
        super().__init__()
        self.of = torch.nn.Linear(8, 24)
        self.register_buffer("unused", torch.zeros(3))
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(16, 2, 8).permute(1, 0, 2), persistent=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(2, dtype=torch.bfloat16))

    def forward(self, x, at):
        q, k, v = self.of(x).split(8, -1)
        self.keys.index_copy_(1, at, k[:, None])
        self.values.index_copy_(1, at, v[:, None])
        self.count.add_(1)
        self.total += q.sum(-1).to(torch.bfloat16)
        scores = (self.keys @ q[..., None])[..., 0]
        seen = torch.arange(16) <= at
        weights = torch.where(seen, scores, float("-inf")).softmax(-1)
        return (weights[..., None] * self.values).sum(1), None, self.count


@pytest.mark.parametrize("freeze", [None, True, False])
def test_a_cache_is_read_and_written_at_each_call(freeze):
    torch.manual_seed(0)
    model = Cache().eval()
    eager = copy.deepcopy(model)
    xs = torch.randn(6, 2, 8)
    with torch.no_grad():
        compiled = hloom.torch.compile(model, xs[0], torch.tensor([0]), freeze=freeze)
        assert model.count == 0
        for k, x in enumerate(xs):
            if k == 4:  # somebody else writes, too
                model.keys.zero_(), eager.keys.zero_()
            found, wanted = (m(x, torch.tensor([k])) for m in (compiled, eager))
            torch.testing.assert_close(found[0], wanted[0])
            assert found[1] is None and found[2] == wanted[2] == k + 1
            for own, other in zip(model.buffers(), eager.buffers(), strict=True):
                torch.testing.assert_close(own, other)
    assert compiled.freezing.is_frozen == (freeze is not False)


def test_weights_that_change_leave_the_cache_as_it_is():
    torch.manual_seed(0)
    model = Cache().eval()
    eager = copy.deepcopy(model)
    x = torch.randn(2, 8)
    with torch.no_grad():
        compiled = hloom.torch.compile(model, x, torch.tensor([0]))
        compiled(x, torch.tensor([0])), eager(x, torch.tensor([0]))
        model.of.weight.mul_(2), eager.of.weight.mul_(2)
        with pytest.warns(hloom.torch.WeightsChangedWarning):
            found = compiled(x, torch.tensor([1]))
        for k in (2, 3):
            torch.testing.assert_close(found[0], eager(x, torch.tensor([k - 1]))[0])
            found = compiled(x, torch.tensor([k]))


def test_batch_norm_in_training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).train()
    eager, x = copy.deepcopy(model), torch.randn(2, 3, 9, 9)
    compiled = hloom.torch.compile(model, x)
    assert not compiled.freezing.is_frozen
    for _ in range(3):
        torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-5)
    for own, other in zip(model.buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(own, other)


def test_the_graph_has_buffers_behind_its_own_results():
    shape = hloom.torch.lower(Cache().eval(), torch.randn(2, 8), torch.tensor([0])).entry.root.shape
    assert [s.text_without_layout for s in shape.elements[2:]] == [
        "f32[2,16,8]",
        "f32[2,16,8]",
        "s64[]",
        "bf16[2]",
    ]


def test_a_library_has_no_buffers_to_write_to(tmp_path):
    with pytest.raises(hloom.HloError, match=r"writes to its own .*count.*constants"):
        hloom.torch.export_c(
            Cache().eval(), torch.randn(2, 8), torch.tensor([0]), path=tmp_path / "x.so"
        )


def test_a_parameter_that_is_written_to():
    class Grows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(3), requires_grad=False)
            self.of = torch.nn.Linear(3, 3)

        def forward(self, x):
            self.scale.add_(1)
            return self.of(x) * self.scale

    model = Grows().eval()
    eager, x = copy.deepcopy(model), torch.randn(2, 3)
    compiled = hloom.torch.compile(model, x)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), eager(x).detach())
        torch.testing.assert_close(model.scale, eager.scale)


def test_tensors_that_are_given_one_by_one_need_no_trees(monkeypatch):
    """Which took most of a short call."""
    from torch.utils import _pytree

    class Two(torch.nn.Module):
        def forward(self, x, y):
            return x - y

    x, y = torch.randn(2, 3), torch.randn(3)
    compiled = hloom.torch.compile(Two(), x, y)
    with monkeypatch.context() as patch:
        for name in ("tree_flatten", "tree_unflatten"):
            patch.setattr(_pytree, name, None)
        torch.testing.assert_close(compiled(x, y), x - y)
    with pytest.raises(UsageError, match="is given"):
        compiled(x, y=y)
    with pytest.raises(UsageError, match="is given"):
        compiled(x)
