"""Weights of PyTorch's models as constants of a program: when, and until when."""

import warnings

import pytest

import hloom

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
try:
    import torchax  # noqa: F401
except Exception as error:
    pytest.skip(f"no torchax that works with this PyTorch: {error}", allow_module_level=True)


def network():
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten()
    model = torch.nn.Sequential(*layers, torch.nn.Linear(8 * 36, 5)).eval()
    model[1].running_mean.uniform_(-1, 1)
    model[1].running_var.uniform_(1, 2)
    return model, torch.randn(2, 3, 8, 8)


def agree(compiled, model, x):
    torch.testing.assert_close(compiled(x), model(x).detach(), rtol=1e-4, atol=1e-5)


def parameters(compiled):
    return len(compiled.executable.argument_names)


def test_weights_are_constants_in_evaluation_mode():
    model, x = network()
    compiled = hloom.torch.compile(model, x)
    assert compiled.freezing == hloom.torch.Freezing(True, "the model is in evaluation mode")
    assert parameters(compiled) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agree(compiled, model, x)


def _by_optimizer(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    sum(p.sum() for p in model.parameters()).backward()
    optimizer.step()


def _by_loading(model):
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})


def _by_data(model):
    for p in model.parameters():
        p.data.mul_(0.5)


def _by_array(model):
    model[3].weight.detach().numpy()[...] *= 2


def _by_other_memory(model):
    model[3].weight.data = model[3].weight.data * 3


def _buffer(model):
    model[1].running_mean.add_(1)


CHANGES = (_by_optimizer, _by_loading, _by_data, _by_array, _by_other_memory, _buffer)


@pytest.mark.parametrize("change", CHANGES)
def test_weights_that_are_written_to_become_arguments(change):
    model, x = network()
    compiled = hloom.torch.compile(model, x)
    agree(compiled, model, x)
    change(model)
    with pytest.warns(hloom.torch.WeightsChangedWarning, match="freeze=False"):
        agree(compiled, model, x)
    assert not compiled.freezing.is_frozen and parameters(compiled) > 1
    change(model)
    with warnings.catch_warnings():  # it is said once
        warnings.simplefilter("error")
        compiled(x)


def test_frozen_weights_stay_as_they_were():
    model, x = network()
    compiled = hloom.torch.compile(model, x, freeze=True)
    before = model(x).detach()
    for change in CHANGES:
        change(model)
    torch.testing.assert_close(compiled(x), before, rtol=1e-4, atol=1e-5)
    assert parameters(compiled) == 1


def test_weights_as_arguments_are_read_at_each_call():
    model, x = network()
    compiled = hloom.torch.compile(model, x, freeze=False)
    _by_loading(model)
    agree(compiled, model, x)
    assert compiled.freezing.reason == "freeze=False"


def test_weights_are_arguments_where_they_will_be_or_may_be_changed():
    model, x = torch.nn.Sequential(torch.nn.Linear(3, 2)), torch.randn(4, 3)
    compiled = hloom.torch.compile(model, x)
    assert "training mode" in compiled.freezing.reason and parameters(compiled) == 3
    agree(compiled, model, x)
    with torch.inference_mode():
        other = torch.nn.Linear(3, 2).eval()
        assert "inference_mode" in hloom.torch.compile(other, x).freezing.reason


def test_what_is_captured_has_its_weights_as_constants():
    model, x = network()
    compiled = hloom.torch.compile(torch.export.export(model, (x,)), x)
    assert compiled.freezing.is_frozen
    agree(compiled, model, x)
    _by_optimizer(model)
    with pytest.warns(hloom.torch.WeightsChangedWarning):
        agree(compiled, model, x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.complex64, torch.int64])
def test_weights_of_other_types(dtype):
    class Adds(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.arange(6).to(dtype).reshape(2, 3).T)
            self.register_buffer("none", torch.zeros(0, 3, dtype=dtype))

        def forward(self, x):
            return x + self.b, self.none

    model, x = Adds().eval(), torch.ones(3, 2).to(dtype)
    compiled = hloom.torch.compile(model, x)
    torch.testing.assert_close(compiled(x)[0], model(x)[0])
    model.b.add_(1)
    with pytest.warns(hloom.torch.WeightsChangedWarning):
        torch.testing.assert_close(compiled(x)[0], model(x)[0])


def test_large_weights_are_arguments(monkeypatch):
    monkeypatch.setattr("hloom.torch.weights.FREEZE_BYTES", 1 << 20)
    model, x = torch.nn.Linear(1 << 9, (1 << 9) + 1).eval(), torch.zeros(1, 1 << 9)
    assert "MB" in hloom.torch.compile(model, x).freezing.reason


def test_tied_weights_count_once(monkeypatch):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(512, 512), torch.nn.Linear(512, 512)
            self.second.weight = torch.nn.Parameter(self.first.weight.detach())
            self.turned = torch.nn.Parameter(self.first.weight.detach().T)

        def forward(self, x):
            return self.second(self.first(x) @ self.turned)

    monkeypatch.setattr("hloom.torch.weights.FREEZE_BYTES", 5 << 19)
    model, x = Tied().eval(), torch.randn(3, 512)
    compiled = hloom.torch.compile(model, x)
    assert compiled.freezing.is_frozen
    agree(compiled, model, x)
