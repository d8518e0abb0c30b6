"""Replacing many instructions at once is replacing one after another."""

from hloom.ir.text.parse import parse_module
from hloom.ir.text.show import show_module

TEXT = """HloModule m

ENTRY e {
  x = f32[3] parameter(0)
  a = f32[3] negate(x)
  b = f32[3] negate(a)
  c = f32[3] add(a, b)
  d = f32[3] abs(x)
  f = f32[3] sign(x)
  ROOT r = (f32[3], f32[3], f32[3]) tuple(a, b, a)
}
"""


def test_many_at_once_is_one_after_another():
    texts = []
    for at_once in (False, True):
        module = parse_module(TEXT)
        entry, of = module.entry, module.entry.names
        pairs = {of["a"]: of["d"], of["b"]: of["f"]}
        if at_once:
            entry.replace_all(pairs)
        else:
            for old, new in pairs.items():
                entry.replace(old, new)
        assert not of["a"].users and not of["b"].users
        assert list(of["d"].users) == [of["b"], of["c"], of["r"]]
        assert of["r"].operands == (of["d"], of["f"], of["d"]) and not entry.is_sorted
        texts.append(show_module(module))
    assert texts[0] == texts[1]


def test_a_root_is_replaced_too():
    module = parse_module(TEXT)
    module.entry.root = module.entry.names["c"]
    module.entry.replace_all({module.entry.names["c"]: module.entry.names["d"]})
    assert module.entry.root is module.entry.names["d"]
