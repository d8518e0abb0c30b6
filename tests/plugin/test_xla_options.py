"""Options by name: which values XLA takes, and in which words the others are refused."""

import logging

import pytest

from hloom.api import UsageError
from hloom.plugin.xla_options import flag_words, option_words, types


def refusal(name: str, value: object) -> str:
    with pytest.raises(UsageError) as caught:
        option_words([(name, value)])
    return caught.value.message


def test_what_hloom_acts_on_becomes_words():
    given = [
        ("xla_cpu_enable_fast_math", True),
        ("xla_cpu_prefer_vector_width", 512),
        ("xla_disable_hlo_passes", "algsimp,dce"),
        ("xla_dump_to", "/tmp/x"),
        ("xla_cpu_collective_call_warn_stuck_seconds", 7),
        ("xla_embed_ir_in_executable", True),
    ]
    words = option_words(given)
    assert words[:3] == [
        "--xla_cpu_enable_fast_math=true",
        "--xla_cpu_prefer_vector_width=512",
        "--xla_disable_hlo_passes=algsimp,dce",
    ]
    assert words[4] == "--xla_cpu_collective_call_warn_stuck_timeout_seconds=7"
    assert not any("embed_ir" in word for word in words)


def test_flags_of_the_environment(monkeypatch, caplog):
    flags = (
        "--xla_cpu_enable_fast_math --xla_dump_to=/tmp/x --xla_gpu_cudnn_gemm_max_plans=0 --xla_foo"
    )
    monkeypatch.setenv("XLA_FLAGS", f"{flags} --xla_force_host_platform_device_count=8")
    with caplog.at_level(logging.INFO, "hloom"):
        assert flag_words() == ["--xla_cpu_enable_fast_math", "--xla_dump_to=/tmp/x"]
        assert flag_words() == ["--xla_cpu_enable_fast_math", "--xla_dump_to=/tmp/x"]
    told = [(r.levelname, r.getMessage()) for r in caplog.records]
    words = "XLA_FLAGS: hloom has no use for --xla_gpu_cudnn_gemm_max_plans, --xla_foo"
    assert told == [("WARNING", words)], "once, and at once"
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=maybe")
    assert flag_words() == []
    monkeypatch.setenv("XLA_FLAGS", "/a/file")
    assert flag_words() == []


def test_what_does_nothing_is_told_once(caplog):
    with caplog.at_level(logging.INFO, "hloom"):
        for _ in range(2):
            assert option_words([("xla_gpu_enable_cublaslt", True)]) == []
    assert [r.getMessage() for r in caplog.records] == [
        "the compile option xla_gpu_enable_cublaslt is XLA's own and does nothing here"
    ]


def test_unknown_names():
    for name in ("foo", "xla_foo", "cpu_enable_fast_math", "xla_tpu_enable_foo"):
        assert refusal(name, True) == f"No such compile option: '{name}'"


@pytest.mark.parametrize(
    ("name", "kind", "good", "bad"),
    [
        ("xla_cpu_enable_fast_math", "bool", (True, "True", "False"), (0, 1.0, "true", "")),
        ("xla_backend_optimization_level", "int32", (0, "3", -1), (True, 1.5, "x", 1 << 40)),
        (
            "xla_gpu_auto_spmd_partitioning_memory_budget_ratio",
            "float",
            (0.5, "1", "1e3"),
            (True, 1, "x", ""),
        ),
        ("xla_dump_to", "string", ("", "x"), (True, 1, 0.5)),
        (
            "xla_step_marker_location",
            "enum",
            ("STEP_MARK_NONE", "77", 1),
            ("NO_MARK", True, 0.5, ""),
        ),
        (
            "xla_gpu_disable_async_collectives",
            "enum",
            ("ALLREDUCE,ALLGATHER", "", 1, "2,ALLREDUCE", 77, "NOOP"),
            ("ALLREDUCE,NOTHING", True),
        ),
        ("xla_disable_hlo_passes", "string", ("a,b", ""), (True, 1)),
        ("xla_backend_extra_options", "message", ("",), ("a=1", 1)),
    ],
)
def test_values(name, kind, good, bad):
    for value in good:
        option_words([(name, value)])
    for value in bad:
        shown = int(value) if isinstance(value, bool) else f"{value:g}" if value == 1.0 else value
        wanted = f"While setting option {name}, '{shown}' is not a valid {kind} value."
        assert refusal(name, value) == wanted


def test_every_option_has_a_type():
    assert len(types()) > 300
    assert {kind.split(" ")[0] for kind in types().values()} <= {
        *("bool", "int32", "int64", "float", "string", "enum", "message", "repeated")
    }


def test_kinds_of_collectives_by_their_numbers():
    name = "xla_gpu_disable_async_collectives"
    assert option_words([(name, "2,ALLREDUCE,77")]) == [f"--{name}=ALLGATHER,ALLREDUCE"]
