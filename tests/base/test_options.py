"""The option table: names, defaults, and how values are written."""

import pytest

from hloom.base.diagnostics import UsageError
from hloom.base.options import OPTIONS, Options

# A few rows of the specification's table, written down again on purpose.
DEFAULTS = {
    "allow_excess_precision": True,
    "cpu_enable_fast_math": False,
    "cpu_enable_fast_min_max": True,
    "cpu_parallel_codegen_split_count": 32,
    "cpu_prefer_vector_width": 256,
    "cpu_scheduler_type": "default",
    "disable_hlo_passes": (),
    "dump_compact_gte": True,
    "dump_hlo_as_long_text": True,
    "dump_hlo_unoptimized_snapshots": None,
    "dump_max_hlo_modules": -1,
    "force_host_platform_device_count": 1,
    "gpu_autotune_level": 4,
    "gpu_memory_limit_slop_factor": 95,
    "gpu_threshold_for_windowed_einsum_mib": 100000,
    "hlo_pass_fix_detect_cycles": False,
    "while_loop_all_reduce_dus_code_motion_max_size_bytes": 10240,
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name):
    assert Options()[name] == DEFAULTS[name] and type(Options()[name]) is type(DEFAULTS[name])


def test_reading_all_gives_the_table():
    assert {name: Options()[name] for name in Options()} == {
        name: option.default for name, option in OPTIONS.items()
    }


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_is_read_back_as_it_is_written(name):
    read = Options.parsed([OPTIONS[name].written()])[name]
    assert read == (OPTIONS[name].default or type(read)())


@pytest.mark.parametrize("prefix", ["", "xla_"])
def test_both_names_do_the_same(prefix):
    assert Options.parsed([f"--{prefix}gpu_autotune_level=0"])["gpu_autotune_level"] == 0


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("--cpu_enable_fast_math", True),
        ("--cpu_enable_fast_math=true", True),
        ("--cpu_enable_fast_math=false", False),
        ("--cpu_enable_fast_math=0", False),
        ("--disable_hlo_passes=a, b,", ("a", "b")),
        ("--dump_max_hlo_modules=-1", -1),
        ("--dump_to=a=b", "a=b"),
        ("--dump_hlo_unoptimized_snapshots", True),
    ],
)
def test_values(word, value):
    name = word[2:].partition("=")[0]
    assert Options.parsed([word])[name] == value


@pytest.mark.parametrize(
    "word",
    [
        "--gpu_autotune_lvl=0",
        "--gpu_autotune_level=much",
        "--gpu_autotune_level",
        "--cpu_enable_fast_math=maybe",
        "gpu_autotune_level=0",
        "--",
        "--xla_xla_gpu_autotune_level=0",
    ],
)
def test_wrong_words(word):
    with pytest.raises(UsageError):
        Options.parsed([word])


def test_a_near_name_is_offered():
    with pytest.raises(UsageError, match="gpu_autotune_level"):
        Options.parsed(["--gpu_autotune_lvl=0"])


def test_the_last_one_wins_over_the_environment():
    base = Options.from_environment({"XLA_FLAGS": "--xla_dump_to=a --gpu_autotune_level=1"})
    assert base["dump_to"] == "a"
    both = Options.parsed(["--dump_to=b", "--dump_to=c"], base)
    assert (both["dump_to"], both["gpu_autotune_level"]) == ("c", 1)


def test_environment_may_name_a_file(tmp_path):
    path = tmp_path / "flags"
    path.write_text("--xla_dump_to=here\n--gpu_autotune_level=2\n")
    assert Options.from_environment({"XLA_FLAGS": str(path)})["gpu_autotune_level"] == 2
    with pytest.raises(UsageError, match="cannot read"):
        Options.from_environment({"XLA_FLAGS": str(tmp_path / "absent")})
    with pytest.raises(UsageError):
        Options.from_environment({"XLA_FLAGS": "--dump_to='open"})


def test_unread_options_are_named():
    options = Options.parsed(["--dump_to=a", "--gpu_autotune_level=1"])
    assert options.unread(["dump_to"]) == ["gpu_autotune_level"]


def test_with_reads_text_and_values():
    options = Options().with_(gpu_autotune_level="3", xla_dump_to="x", cpu_enable_fast_math=True)
    assert (options["gpu_autotune_level"], options["dump_to"]) == (3, "x")
    assert Options()["dump_to"] == ""


@pytest.mark.parametrize(
    "word", ["ALLREDUCE", "allreduce,AllGather", "ALLCOLLECTIVES", "RaggedAllToAll", ""]
)
def test_kinds_of_collectives_in_any_letter_case(word):
    read = Options.parsed([f"--xla_gpu_disable_async_collectives={word}"])
    assert read["gpu_disable_async_collectives"] == tuple([w for w in word.split(",") if w])


@pytest.mark.parametrize("value", ["ALLREDUCES", "ALLREDUCE,none", ["ALLGATHER", "ALL"]])
def test_an_unknown_kind_of_collective_is_an_error(value):
    with pytest.raises(UsageError, match="is not among its names") as error:
        Options().with_(gpu_disable_async_collectives=value)
    assert error.value.rule == "option"


def test_a_list_given_again_replaces_the_one_before():
    words = [
        f"--gpu_disable_async_collectives={names}" for names in ("ALLCOLLECTIVES", "allreduce")
    ]
    assert Options.parsed(words)["gpu_disable_async_collectives"] == ("allreduce",)
