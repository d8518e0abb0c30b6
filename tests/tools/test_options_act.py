"""Each option that `hloom opt` reads: some output changes with it."""

import itertools

import pytest

import hloom
from hloom import api
from hloom.tools.opt import READ

ASYNC = """HloModule shapes

%negated (p: f32[12]) -> f32[12] {
  %p = f32[12]{0} parameter(0)
  ROOT %n = f32[12]{0} negate(%p)
}

ENTRY %main (t: (f32[12], f32[12])) -> f32[12] {
  %t = (f32[12]{0}, f32[12]{0}) parameter(0)
  %g = f32[12]{0} get-tuple-element(%t), index=1
  %start = ((f32[12]{0}), f32[12]{0}, s32[]) async-start(%g), calls=%negated
  %done = f32[12]{0} async-done(%start)
  %c = f32[12]{0} constant({1,2,3,4,5,6,7,8,9,10,11,12}), metadata={source_file="x.py"}
  ROOT %r = f32[12]{0} add(%done, %c)
}
"""


@pytest.fixture
def passes(monkeypatch):
    """Passes that lie, or never end, for the options that catch them."""

    class Liar(api.Pass):
        name = "liar"

        def run(self, module, *, trace=None, threads=frozenset()):
            return api.PassResult(changed=True)

    class Silent(api.Pass):
        name = "silent"

        def run(self, module, *, trace=None, threads=frozenset()):
            module.entry.rename(module.entry.root, "renamed")
            return api.PassResult(changed=False)

    class Flip(api.Pass):
        name = "flip"

        def run(self, module, *, trace=None, threads=frozenset()):
            root = module.entry.root
            module.entry.rename(root, "b" if root.name == "a" else "a")
            return api.PassResult(changed=True)

    numbers = itertools.count()

    class Endless(api.Pass):
        name = "endless"

        def run(self, module, *, trace=None, threads=frozenset()):
            module.entry.rename(module.entry.root, f"r{next(numbers)}")
            return api.PassResult(changed=True)

    for cls in (Liar, Silent, Flip, Endless):
        monkeypatch.setitem(api.PASSES._items, cls.name, cls)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("liar", "--unsupported_crash_on_hlo_pass_noop_change"),
        ("silent", "--xla_unsupported_crash_on_hlo_pass_silent_hlo_change"),
        ("endless --fix-point", "--unsupported_crash_on_hlo_pass_fix_max_iterations=true"),
    ],
)
def test_what_is_fatal_on_request(run, add, passes, name, option):
    words = [add, "--passes", *name.split()]
    assert run("opt", *words).exit_code == 0
    done = run("opt", *words, option)
    assert done.exit_code == 1 and done.stderr.startswith("error: "), done.output


def test_cycles_are_found_on_request(run, add, passes):
    words = ["opt", add, "--passes=flip", "--fix-point"]
    assert run(*words).stderr == ""
    assert "warning:" in run(*words, "--hlo_pass_fix_detect_cycles").stderr


@pytest.mark.parametrize(
    ("option", "without", "with_"),
    [
        ("--dump_compact_gte=false", "(%t#1)", "get-tuple-element"),
        ("--dump_large_constants", "constant({...})", "11, 12}"),
        ("--syntax_sugar_async_ops", "async-start", "negate-start"),
        ("--dump_disable_metadata", "x.py", "ROOT"),
        ("--dump_hlo_as_long_text=false", "%done", "ROOT"),
    ],
)
def test_how_dumps_are_printed(run, tmp_path, option, without, with_):
    path = tmp_path / "in.hlo"
    path.write_text(ASYNC)

    def dumped(*options):
        folder = tmp_path / f"dump{len(options)}"
        run("opt", path, "--passes=", f"--dump_to={folder}", *options)
        return (folder / "module_0001.shapes.before_optimizations.txt").read_text()

    plain, changed = dumped(), dumped(option)
    assert without in plain and without not in changed
    assert with_ in changed
    assert hloom.parse(changed).name == hloom.parse(plain).name == "shapes"


def test_timestamp(run, add, tmp_path):
    folder = tmp_path / "d"
    run("opt", add, "--passes=dce", f"--dump_to={folder}", "--dump_include_timestamp")
    assert all(p.name.partition(".")[0].isdigit() for p in folder.iterdir())


def test_every_option_that_is_read_is_in_the_table():
    assert set(api.OPTIONS) > READ
