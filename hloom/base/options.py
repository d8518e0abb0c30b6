"""The options of the compiler: one table of names, defaults and meanings, and how they are written.

An option is `--name=value` on a command line, in the environment variable `XLA_FLAGS`, or a
keyword in the API; the name with `xla_` in front is the same option, so that command lines written
for XLA work. A boolean may also be `--name` alone. An unknown name is an error that offers the
nearest ones: a misspelt option that is ignored costs somebody a day.

What reads an option states so; whoever runs asks `Options.unread` for those that a user gave and
nothing reads, and says that they do nothing.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hloom.base.diagnostics import UsageError, did_you_mean

PREFIX = "xla_"

# Name, default, meaning. None: unset, which acts as false.
_ROWS: tuple[tuple[str, Any, str], ...] = (
    (
        "allow_excess_precision",
        True,
        "intermediate results may be more precise than their type says",
    ),
    (
        "autotune",
        "off",
        "how kernels are chosen: off by costs, load by results, quick and full by measuring",
    ),
    ("autotune_complete", False, "with autotune=load, a kernel without a result is an error"),
    ("autotune_export", "", "file to which the results that were used are written"),
    ("autotune_load", "", "file of results to begin with, as autotune_export writes it"),
    ("autotune_log", "", "file to which all that is measured is appended, as text proto"),
    (
        "cpu_collective_call_terminate_timeout_seconds",
        40,
        "a stuck CPU collective ends in an error",
    ),
    ("cpu_collective_call_warn_stuck_timeout_seconds", 20, "a stuck CPU collective is reported"),
    ("cpu_collective_timeout_seconds", 1800, "a CPU collective that devices are late for fails"),
    ("cpu_copy_insertion_use_region_analysis", False, "copy insertion on CPU uses region analysis"),
    ("cpu_enable_fast_math", False, "fast-math flags in elemental kernels"),
    ("cpu_enable_fast_min_max", True, "min and max may fail to pass on NaN"),
    ("cpu_fast_math_honor_division", True, "under fast math, keep exact division"),
    ("cpu_fast_math_honor_functions", True, "under fast math, keep exact functions"),
    ("cpu_fast_math_honor_infs", True, "under fast math, keep infinities"),
    ("cpu_fast_math_honor_nans", True, "under fast math, keep NaNs"),
    (
        "cpu_generate_unique_c_style_kernel_entry_points",
        False,
        "unique C identifiers as kernel names",
    ),
    (
        "cpu_max_isa",
        "",
        "newest instruction set to use (AVX2, AVX512, ...); empty is no limit",
    ),
    ("cpu_multi_thread_eigen", True, "dot and convolution use the intra-op pool"),
    ("cpu_parallel_codegen_split_count", 32, "at most so many parts are compiled in parallel"),
    ("cpu_prefer_vector_width", 256, "preferred vector width in bits"),
    (
        "cpu_scheduler_type",
        "default",
        "memory scheduler of the CPU: default, memory optimised, concurrency optimised",
    ),
    ("disable_all_hlo_passes", False, "run no passes"),
    (
        "disable_automatic_host_compute_offload",
        False,
        "error where compute would move to the host by itself",
    ),
    ("disable_hlo_passes", (), "names of passes or pipelines not to run"),
    ("dump_compact_gte", True, "dumps use compact GTE notation"),
    ("dump_hlo_as_long_text", True, "text dumps are in the long form"),
    ("dump_hlo_unoptimized_snapshots", None, "dump modules with inputs at execution"),
    ("dump_large_constants", False, "dumps hold large constants in full"),
    ("dump_max_hlo_modules", -1, "at most so many modules are dumped; -1 is no limit"),
    ("enable_hlo_passes_only", (), "names of the only passes to run"),
    ("force_host_platform_device_count", 1, "number of CPU devices"),
    (
        "gpu_autotune_level",
        4,
        "0 off; 1 on; 2 also fill buffers; 3 before each run; 4 check results; 5 skip wrong ones",
    ),
    ("gpu_cudnn_gemm_max_plans", 5, "most cuDNN plans tried per gemm fusion"),
    ("gpu_disable_async_collectives", (), "kinds of collectives to run synchronously"),
    ("gpu_enable_analytical_latency_estimator", False, "analytical estimator"),
    ("gpu_enable_analytical_sol_latency_estimator", True, "speed-of-light estimator"),
    ("gpu_enable_latency_hiding_scheduler", False, "latency hiding scheduler on GPU"),
    ("gpu_enable_nccl_comm_splitting", True, "communicators may be split from larger ones"),
    ("gpu_enable_nccl_user_buffers", False, "register user buffers"),
    ("gpu_executable_terminate_timeout_seconds", 30, "a stuck start ends in an error"),
    ("gpu_executable_warn_stuck_timeout_seconds", 10, "a stuck start is reported"),
    ("gpu_experimental_collective_start_as_early_as_possible", False, "start-delay rule"),
    (
        "gpu_experimental_enable_alltoall_windowed_einsum",
        None,
        "windowed einsum for all-to-all and gemm",
    ),
    ("gpu_experimental_enable_collective_multi_streaming", False, "several communication streams"),
    ("gpu_experimental_enable_nccl_symmetric_buffers", False, "symmetric buffers"),
    ("gpu_experimental_parallel_async_compute_limit", 2, "async computations in flight"),
    ("gpu_experimental_parallel_collective_overlap_limit", 1, "collectives in flight"),
    ("gpu_experimental_scaled_dot_with_triton", True, "scaled dot through the tile emitter"),
    (
        "gpu_experimental_stream_annotation",
        True,
        "honour explicit stream annotations; false ignores them",
    ),
    (
        "gpu_first_collective_call_terminate_timeout_seconds",
        40,
        "a stuck first collective ends in an error",
    ),
    (
        "gpu_first_collective_call_warn_stuck_timeout_seconds",
        20,
        "a stuck first collective is reported",
    ),
    ("gpu_graph_min_graph_size", 5, "fewest commands worth a command buffer"),
    ("gpu_memory_limit_slop_factor", 95, "percent of device memory the scheduler may plan with"),
    ("gpu_multi_streamed_windowed_einsum", True, "partial gemms on several streams"),
    (
        "gpu_nccl_collective_max_nchannels",
        0,
        "most channels for collectives; 0 lets the library decide",
    ),
    (
        "gpu_nccl_p2p_max_nchannels",
        0,
        "most channels for point-to-point; 0 lets the library decide",
    ),
    (
        "gpu_threshold_for_windowed_einsum_mib",
        100000,
        "smallest operand, in MiB, worth a windowed einsum",
    ),
    ("gpu_use_memcpy_local_p2p", False, "collective-permute by memory copy within a process"),
    ("hlo_pass_fix_detect_cycles", False, "detect cycles in fixed points by module hash"),
    ("slow_compile_alarm_seconds", 120, "compiling longer than this is reported; 0 is never"),
    (
        "strict_compilation",
        False,
        "faults of the compiler are raised, not gone around (HLOOM_STRICT=1)",
    ),
    ("syntax_sugar_async_ops", False, "dumps use the short form for async ops"),
    ("target_cpu", "", "processor to make code for, as LLVM calls it; empty is the one at hand"),
    ("target_features", "", "features of it, +avx2,-fma; empty is what its name says"),
    (
        "target_triple",
        "",
        "system to make code for, such as aarch64-linux-gnu; empty is this one",
    ),
    (
        "unsupported_crash_on_hlo_pass_fix_max_iterations",
        False,
        "a fixed point that reaches its cap is fatal",
    ),
    (
        "unsupported_crash_on_hlo_pass_noop_change",
        False,
        "a pass that claims a change without one is fatal",
    ),
    (
        "unsupported_crash_on_hlo_pass_silent_hlo_change",
        False,
        "a pass that changes silently is fatal",
    ),
    (
        "while_loop_all_reduce_dus_code_motion_max_size_bytes",
        10240,
        "largest all-reduce moved out of a loop",
    ),
    # How modules are dumped.
    ("dump_to", "", "folder for dumps, - for standard output; alone it implies text"),
    ("dump_hlo_as_text", False, "dump modules as HLO text"),
    ("dump_hlo_as_proto", False, "dump modules as HloProto"),
    ("dump_hlo_module_re", ".*", "dump only modules whose name matches"),
    ("dump_hlo_pass_re", "", "dump before and after passes whose name matches; .* is all"),
    ("dump_include_timestamp", False, "the time is part of the names of dumps"),
    ("dump_compress_protos", False, "dumped protos are compressed with gzip"),
    ("dump_disable_metadata", False, "dumps hold no metadata"),
)

# The names that may stand in a list.
_KNOWN = {
    "gpu_disable_async_collectives": (
        "NOOP",
        "ALLREDUCE",
        "ALLGATHER",
        "REDUCESCATTER",
        "COLLECTIVEBROADCAST",
        "ALLTOALL",
        "COLLECTIVEPERMUTE",
        "RAGGEDALLTOALL",
        "ALLCOLLECTIVES",
    )
}

_TRUE = frozenset(("true", "1", "yes"))
_FALSE = frozenset(("false", "0", "no"))


@dataclass(frozen=True)
class Option:
    """One row of the table."""

    name: str
    default: bool | int | str | tuple[str, ...] | None
    """None is an unset boolean; a tuple is a list of names, written with commas."""
    meaning: str
    known: tuple[str, ...] = ()
    """Of a list: the names that it may have, in any letter case; empty is any name."""

    @property
    def is_boolean(self) -> bool:
        return self.default is None or isinstance(self.default, bool)

    def value(self, text: str | None) -> Any:
        """The value that this text stands for; None is the option without `=`."""
        if self.is_boolean:
            lowered = "true" if text is None else text.lower()
            if lowered in _TRUE | _FALSE:
                return lowered in _TRUE
            raise UsageError(f"--{self.name} is true or false, not {text!r}", rule="option")
        if text is None:
            raise UsageError(f"--{self.name} needs a value", rule="option", hint=self.written())
        if isinstance(self.default, int):
            try:
                return int(text)
            except ValueError:
                raise UsageError(
                    f"--{self.name} is a whole number, not {text!r}", rule="option"
                ) from None
        if isinstance(self.default, tuple):
            return self._known([part.strip() for part in text.split(",") if part.strip()])
        return self.checked(text)

    def checked(self, value: Any) -> Any:
        """A value that is given as such; one of the wrong type is a `UsageError`."""
        if self.is_boolean:
            if value is None or isinstance(value, bool):
                return value
            expected = "true or false"
        elif isinstance(self.default, int):
            kinds = int | float if self.name.endswith("_seconds") else int
            if isinstance(value, kinds) and not isinstance(value, bool):
                return value
            expected = "a number" if kinds is not int else "a whole number"
        elif isinstance(self.default, tuple):
            if isinstance(value, list | tuple | set | frozenset):
                if all(isinstance(part, str) for part in value):
                    return self._known(value)
            expected = "a list of names"
        else:
            if isinstance(value, str):
                return self._as_pattern(value) if self.name.endswith("_re") else value
            expected = "a text"
        raise UsageError(f"--{self.name} is {expected}, not {value!r}", rule="option")

    def _known(self, names: Iterable[str]) -> tuple[str, ...]:
        names = tuple(names)
        for name in names:
            if self.known and name.upper() not in self.known:
                raise UsageError(
                    f"--{self.name}: {name!r} is not among its names",
                    rule="option",
                    hint=did_you_mean(name.upper(), self.known)
                    or f"known: {', '.join(self.known)}",
                )
        return names

    def _as_pattern(self, text: str) -> str:
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(
                f"--{self.name}: {text!r} is no regular expression: {error}",
                rule="option",
                hint="what it matches literally is written with a backslash in front: '\\['",
            ) from None
        return text

    def written(self) -> str:
        """How it is given, with its default: `--name=default`."""
        default = self.default
        if default is None:
            text = "false"
        elif isinstance(default, bool):
            text = str(default).lower()
        else:
            text = ",".join(default) if isinstance(default, tuple) else str(default)
        return f"--{self.name}={text}"


OPTIONS: dict[str, Option] = {
    name: Option(name, default, meaning, _KNOWN.get(name, ())) for name, default, meaning in _ROWS
}


def option_named(name: str) -> Option:
    """The option of this name, with or without `xla_`; an unknown one is a `UsageError`."""
    plain = name.removeprefix(PREFIX)
    option = OPTIONS.get(plain)
    if option is None:
        raise UsageError(
            f"no option --{name}", rule="option", hint=did_you_mean(plain, OPTIONS, "--")
        )
    return option


@dataclass(frozen=True)
class Options:
    """What a user set; everything else has its default.

    `options["name"]` is the value in force. Immutable: `with_` returns another.
    """

    given: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Values are of the type of their option, whoever gives them."""
        known = {}
        for name, value in self.given.items():
            option = option_named(name)
            known[option.name] = (
                option.value(value) if isinstance(value, str) else option.checked(value)
            )
        object.__setattr__(self, "given", known)

    def __getitem__(self, name: str) -> Any:
        option = option_named(name)
        return self.given.get(option.name, option.default)

    def __iter__(self) -> Iterator[str]:
        return iter(OPTIONS)

    def with_(self, **values: Any) -> Options:
        """These options with some set; texts are read as on the command line."""
        options = dict(self.given)
        for name, value in values.items():
            options[option_named(name).name] = value
        return Options(options)

    @staticmethod
    def parsed(words: Iterable[str], base: Options | None = None) -> Options:
        """Options written as `--name=value` words; a later one wins over an earlier."""
        values = dict(base.given) if base else {}
        for word in words:
            if not word.startswith("--"):
                raise UsageError(
                    f"{word!r} is no option", rule="option", hint="options are --name=value"
                )
            name, equals, text = word[2:].partition("=")
            option = option_named(name)
            values[option.name] = option.value(text if equals else None)
        return Options(values)

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Options:
        """What `XLA_FLAGS` says; the name of a file there is read as more of the same."""
        text = (os.environ if environment is None else environment).get("XLA_FLAGS", "")
        if text.strip() and not text.lstrip().startswith("-"):
            path = text.strip()
            try:
                with open(path, encoding="utf-8") as file:
                    text = file.read()
            except (OSError, ValueError) as error:
                raise UsageError(f"cannot read XLA_FLAGS file {path}: {error}") from None
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"XLA_FLAGS: {error}", rule="option") from None
        try:
            return Options.parsed(words)
        except UsageError as error:
            error.message = f"XLA_FLAGS: {error.message}"
            raise

    def unread(self, read: Iterable[str]) -> list[str]:
        """Those that were given and that the caller does not read."""
        known = set(read)
        return [name for name in self.given if name not in known]
