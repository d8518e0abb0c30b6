"""Options of kernels and of library fusions: what can be tried, and that the winner is written."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError, UsageError
from hloom.ir.text.parse import parse_module
from hloom.ir.values.backend_schema import CpuBackendConfig, LlvmKernelOptions
from hloom.targets.cpu.options import cpu_target
from hloom.targets.cpu.tuning.kernel_options import (
    LlvmKernelAutotuner,
    OptionsBackend,
    apply_options,
    option_configs,
    options_text,
)
from hloom.targets.cpu.tuning.library_fusion import (
    LibraryFusionConfig,
    apply_library_config,
    library_configs,
)
from hloom.targets.cpu.tuning.profiler import Measured

PROGRAM = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

into {
  x = f32[50,4] parameter(0)
  n = s32[9,1] parameter(1)
  u = f32[9,4] parameter(2)
  ROOT s = f32[50,4] scatter(x, n, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
}

ENTRY e {
  x = f32[50,4] parameter(0)
  n = s32[9,1] parameter(1)
  u = f32[9,4] parameter(2)
  joined = f32[59,4] concatenate(x, u), dimensions={0}
  again = f32[59,4] concatenate(x, u), dimensions={0}
  spread = f32[50,4] fusion(x, n, u), kind=kInput, calls=into
  both = f32[59,4] add(joined, again)
  ROOT r = (f32[59,4], f32[50,4]) tuple(both, spread)
}
"""


def named(module, name):
    return next(i for i in module.entry.instructions if i.name == name)


def times(fastest: LlvmKernelOptions):
    """A measure by which one config takes half the time, and the instructions it was asked of."""
    asked = []

    def measure(i, configs):
        asked.append(i.name)
        return [Measured(options_text(c), 1e-3 if c == fastest else 2e-3) for c in configs]

    return measure, asked


def test_eight_configs_for_what_is_supported_and_none_for_the_rest():
    module = parse_module(PROGRAM)
    for name in ("joined", "spread"):
        configs = option_configs(named(module, name))
        assert len(set(configs)) == len(configs) == 8 and configs[0] == LlvmKernelOptions()
        assert len({options_text(c) for c in configs}) == 8
    assert option_configs(named(module, "both")) == []
    text = PROGRAM.replace("dimensions={0}", 'dimensions={0}, backend_config="mine"', 1)
    assert option_configs(named(parse_module(text), "joined")) == []


def test_a_config_of_another_kind_is_refused():
    with pytest.raises(UsageError, match="no config of LLVM kernels"):
        apply_options(named(parse_module(PROGRAM), "joined"), LibraryFusionConfig())


def test_the_pass_writes_the_winner_and_nothing_else_changes():
    module = parse_module(PROGRAM)
    best = LlvmKernelOptions(disable_loop_unrolling=True, optimize_for_size=True)
    measure, asked = times(best)
    result = LlvmKernelAutotuner(measure).run(module)
    assert result.changed and asked == ["joined", "spread"]  # equal instructions share one tuning
    for name in ("joined", "again", "spread"):
        config = named(module, name).backend_config
        assert config.typed(CpuBackendConfig).llvm_kernel_options == best
    assert not named(module, "both").backend_config
    assert not LlvmKernelAutotuner(measure).run(module).changed
    hloom.verify(module)


def test_the_default_is_written_where_nothing_is_faster_and_what_stood_there_stays():
    text = PROGRAM.replace(
        "dimensions={0}",
        'dimensions={0}, backend_config={"outer_dimension_partitions":["2"]}',
        1,
    )
    module = parse_module(text)
    joined = named(module, "joined")
    before = joined.backend_config.typed(CpuBackendConfig)
    result = LlvmKernelAutotuner(times(LlvmKernelOptions())[0]).run(module)
    config = joined.backend_config.typed(CpuBackendConfig)
    assert result.changed and config.llvm_kernel_options == LlvmKernelOptions()
    assert config.outer_dimension_partitions == before.outer_dimension_partitions != ()


def test_a_module_without_any_is_not_changed():
    module = parse_module(
        "HloModule m\nENTRY e {\n x = f32[3] parameter(0)\n ROOT r = f32[3] add(x, x)\n}"
    )
    measure, asked = times(LlvmKernelOptions())
    assert not LlvmKernelAutotuner(measure).run(module).changed and asked == []


def test_where_all_fail_every_failure_is_told():
    def measure(i, configs):
        return [Measured(options_text(c), failure=f"broken {k}") for k, c in enumerate(configs)]

    with pytest.raises(HloError, match=r"(?s)%joined.*Failures \(8\):\nbroken 0\n.*broken 7"):
        LlvmKernelAutotuner(measure).run(parse_module(PROGRAM))


def test_measured_for_real_every_config_runs_and_takes_time():
    module = parse_module(PROGRAM)
    backend = OptionsBackend(cpu_target(hloom.Options()), rounds=3, budget_s=0.01)
    for name in ("joined", "spread"):
        i = named(module, name)
        found = backend.measure(i, option_configs(i)[::3])
        assert all(m.seconds > 0 and not m.failure for m in found), found


ALONE = """HloModule m
ENTRY e {
  x = f32[50,4] parameter(0)
  u = f32[9,4] parameter(1)
  ROOT joined = f32[59,4] concatenate(x, u), dimensions={0}
}
"""


def test_options_change_the_kernel_and_not_the_result():
    module = parse_module(ALONE)
    apply_options(named(module, "joined"), LlvmKernelOptions(optimize_for_size=True))
    small, plain = hloom.compile(module), hloom.compile(parse_module(ALONE))
    assert "optsize" in small.as_text("llvm") and "optsize" not in plain.as_text("llvm")
    x, u = np.arange(200, dtype=np.float32).reshape(50, 4), np.ones((9, 4), np.float32)
    for exe in (small, plain):
        np.testing.assert_array_equal(np.asarray(exe(x, u)), np.concatenate([x, u]))


def test_options_of_a_scatter_reach_its_kernel_also_from_inside_of_a_fusion():
    module = parse_module(PROGRAM)
    apply_options(named(module, "spread").called[0].root, LlvmKernelOptions(optimize_for_size=True))
    assert "optsize" in hloom.compile(module).as_text("llvm")


def test_compiling_with_measuring_asks_the_pass(tmp_path, monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path / "programs"))
    seen = []
    run = LlvmKernelAutotuner.run
    monkeypatch.setattr(
        LlvmKernelAutotuner, "run", lambda self, module: seen.append(run(self, module))
    )
    hloom.compile(PROGRAM, options={"autotune": "load"})
    assert seen == []
    hloom.compile(PROGRAM, options={"autotune": "quick"})
    assert len(seen) == 1


LIBRARY = """HloModule m

body {
  p = f32[4] parameter(0)
  ROOT s = f32[4] add(p, p)
}

ENTRY e {
  x = f32[4] parameter(0)
  f = f32[4] fusion(x), kind=kCustom, calls=body, backend_config={"fusion_config":{"kind":"KIND"}}
  ROOT r = f32[4] add(f, x)
}
"""


@pytest.mark.parametrize("word", ["xnn", "ynn"])
def test_a_library_fusion_has_two_configs_and_keeps_what_is_chosen(word):
    module = parse_module(LIBRARY.replace("KIND", f"__{word}_fusion"))
    fusion = named(module, "f")
    configs = library_configs(fusion)
    assert configs == [LibraryFusionConfig(True), LibraryFusionConfig(False)]
    assert configs[0] == LibraryFusionConfig()
    apply_library_config(fusion, configs[1])
    wanted = {"kind": f"__{word}_fusion", f"{word}_fusion_options": {"use_threadpool": False}}
    assert fusion.backend_config.json == {"fusion_config": wanted}
    apply_library_config(fusion, configs[0])
    assert fusion.backend_config.json["fusion_config"][f"{word}_fusion_options"] == {
        "use_threadpool": True
    }
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x)), 3 * x)


def test_configs_of_what_is_no_library_fusion_are_refused():
    module = parse_module(LIBRARY.replace("KIND", "loop"))
    for name in ("f", "r"):
        with pytest.raises(UsageError, match="no library fusion"):
            library_configs(named(module, name))
        with pytest.raises(UsageError, match="no library fusion"):
            apply_library_config(named(module, name), LibraryFusionConfig())
