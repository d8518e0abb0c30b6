"""hloom for TensorFlow functions: `hloom.tensorflow.lower(f, *args)`, `jit(f)`, `export_c`.

TensorFlow's bridge writes HLO (`f.experimental_get_compiler_ir`) of a `tf.function` of the tensors
among the arguments; what else they are (True, None, texts) is part of the program. Variables that
the function uses are further parameters, behind its arguments; what it assigns to them are further
results, behind its own, and `input_output_alias` says to which parameter each belongs.

Some tensors must be known when TensorFlow writes HLO, such as the end of a `tf.range` that a loop
runs over: they are constants of the program, which is then compiled anew for other values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom import api
from hloom.api import Executable, Literal, Module, UsageError

if TYPE_CHECKING:
    from hloom.aot.export import CLibrary


def lower(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Module:
    """The graph of a function for tensors like these (or `tf.TensorSpec`s).

    What it assigns to variables are results behind its own, in place of the variables' parameters
    (`input_output_alias`).
    """
    return _lowered(function, _split(arguments, keywords)).module


def export_c(
    function: Callable[..., Any],
    *arguments: Any,
    path: str | Path,
    header_path: str | Path | None = None,
    name: str | None = None,
    argument_names: Sequence[str] | None = None,
    result_names: Sequence[str] | None = None,
    options: Mapping[str, Any] | Iterable[str] | None = None,
    weights: str | Path | None = None,
    pool: bool = False,
    threads: int = 1,
    versions: Sequence[str] = (),
    buckets: Mapping[str, Sequence[int]] | None = None,
    **keywords: Any,
) -> CLibrary:
    """Write the function for tensors like these (or `tf.TensorSpec`s) as a C library
    (`hloom.export_c`).

    Variables that it reads stand in the library as they are now, or in `weights`, a safetensors
    file, by their names (`sequential/dense/kernel`). Tensors whose values are part of the program
    are no arguments of the library. `buckets={"batch": (1, 8)}`: the size of dimensions that are
    None in a `tf.TensorSpec`; of several sizes, `{"batch": ..., "length": ...}`, in this order in
    each shape that has as many.
    """
    from hloom.aot.export import export_c
    from hloom.aot.tensors import NamedWeights

    by_name, named = weights is not None, NamedWeights({}, {})

    def program(**sizes: int) -> Module:
        positional, by_keyword = _of_sizes((arguments, keywords), sizes)
        lowered = _lowered(function, _split(positional, by_keyword))
        _refuse_assigned(lowered)
        values = [_value(x).numpy() for x in _captured(lowered.concrete)]
        first = len(lowered.module.entry.parameters) - len(values)
        if by_name:
            names = _names(lowered.concrete)
            named.add("", enumerate(names, first), values)
            return lowered.module
        constants = {first + k: Literal.owning(value) for k, value in enumerate(values)}
        return lowered.module.with_constants(constants)

    return export_c(
        program() if buckets is None else program,
        path,
        header_path,
        name=name,
        argument_names=argument_names,
        result_names=result_names,
        options=options,
        weights=weights,
        pool=pool,
        threads=threads,
        versions=versions,
        buckets=buckets,
        named_weights=named if by_name else None,
    )


def _refuse_assigned(lowered: _Lowered) -> None:
    """Variables of a library are constants."""
    if lowered.assigned:
        names = ", ".join(x.name for x in lowered.assigned)
        raise UsageError(
            f"it assigns to variables ({names}), and those of a library are constants",
            rule="tensorflow",
            hint="take what changes as an argument and return what it is to be",
        )


def _of_sizes(arguments: Any, sizes: Mapping[str, int]) -> Any:
    """The arguments with sizes where dimensions are None."""
    tf = _tensorflow()

    def of_size(leaf: Any) -> Any:
        if not isinstance(leaf, tf.TensorSpec) or leaf.shape.is_fully_defined():
            return leaf
        dims = [] if leaf.shape.rank is None else leaf.shape.as_list()
        if dims.count(None) != len(sizes) and not (len(sizes) == 1 and dims):
            raise UsageError(
                f"an argument is {leaf.shape}, and buckets are of {', '.join(sizes) or 'nothing'}",
                rule="library-buckets",
                hint="a shape has one None, or as many as buckets have names, in their order",
            )
        numbers = iter(list(sizes.values()) * (len(dims) if len(sizes) == 1 else 1))
        return tf.TensorSpec([next(numbers) if d is None else d for d in dims], leaf.dtype)

    return tf.nest.map_structure(of_size, arguments)


def _names(concrete: Any) -> list[str]:
    """Of what the program takes behind its arguments; a number for what is no variable."""
    handles = {id(v.handle): v.name.rpartition(":")[0] for v in concrete.graph.variables}
    names = [handles.get(id(x), f"captured{k}") for k, x in enumerate(concrete.captured_inputs)]
    if repeated := sorted({n for n in names if names.count(n) > 1}):
        raise UsageError(
            f"two variables are called {repeated[0]}, and weights of a file have a name each",
            rule="weights-by-name",
            hint="name them, tf.Variable(..., name='encoder/kernel')",
        )
    return names


def jit(
    function: Callable[..., Any],
    *,
    threads: int | None = None,
    options: Mapping[str, Any] | Iterable[str] | None = None,
) -> Callable[..., Any]:
    """The function compiled by hloom, once for each kind of arguments; tensors in, tensors out.

    Variables are read at each call, and have what it assigns to them when it returns: a training
    step with its optimizer works as it is.
    """
    tf = _tensorflow()
    _checked(function)
    kinds: dict[Any, tuple[int, ...]] = {}
    """By kind of arguments: the tensors that are constants of the program."""
    known: dict[Any, tuple[_Lowered, Executable]] = {}
    lock = threading.Lock()

    def call(*arguments: Any, **keywords: Any) -> Any:
        inputs = _split(arguments, keywords)
        inputs = replace(inputs, tensors=[tf.convert_to_tensor(x) for x in inputs.tensors])
        kind = (*inputs.fixed, *((x.dtype, tuple(x.shape)) for x in inputs.tensors))
        with lock:
            key = kind, _values(inputs, kinds.get(kind, ()))
            if key not in known:
                lowered = _lowered(function, inputs)
                executable = api.compile(lowered.module, threads=threads, options=options)
                kinds[kind] = lowered.constants
                key = kind, _values(inputs, lowered.constants)
                known[key] = lowered, executable
            lowered, executable = known[key]
        own = [x for k, x in enumerate(inputs.tensors) if k not in lowered.constants]
        captured = [_value(x) for x in _captured(lowered.concrete)]
        outcome = executable(*[x.numpy() for x in (*own, *captured)])
        results = outcome if isinstance(outcome, tuple) else (outcome,)
        count = len(results) - len(lowered.assigned)
        for variable, value in zip(lowered.assigned, results[count:], strict=True):
            variable.assign(np.asarray(value))
        tensors = iter([tf.convert_to_tensor(np.asarray(r)) for r in results[:count]])
        structure = lowered.concrete.structured_outputs
        leaves = [None if x is None else next(tensors) for x in _flat(tf, structure)]
        return tf.nest.pack_sequence_as(structure, leaves, expand_composites=True)

    return call


@dataclass(frozen=True)
class _Arguments:
    """Arguments: their tensors, and what else they are."""

    tensors: Sequence[Any]
    whole: Any
    """Positions and keywords, in which each tensor is its number."""
    fixed: tuple[Any, ...]
    """What programs for other arguments differ by: nesting, and what is no tensor."""


@dataclass(frozen=True)
class _Slot:
    """Where a tensor stands among arguments."""

    number: int


@dataclass(frozen=True)
class _Lowered:
    concrete: Any
    module: Module
    constants: tuple[int, ...]
    """The tensors whose values are part of the program."""
    assigned: tuple[Any, ...]
    """The variables that have the last results of the program as values when it has run."""


def _split(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> _Arguments:
    tf = _tensorflow()
    whole = (arguments, dict(sorted(keywords.items())))
    tensors: list[Any] = []
    leaves: list[Any] = []
    for leaf in tf.nest.flatten(whole):
        _refuse_what_is_no_numbers(tf, leaf, "an argument")
        if isinstance(leaf, tf.IndexedSlices):
            raise UsageError(
                "an argument is IndexedSlices, several tensors in one",
                rule="tensorflow",
                hint="pass .values and .indices, or tf.convert_to_tensor of it",
            )
        if leaf is None or isinstance(leaf, bool | str):
            leaves.append(leaf)
        else:
            leaves.append(_Slot(len(tensors)))
            tensors.append(leaf)
    packed = tf.nest.pack_sequence_as(whole, leaves)
    return _Arguments(tensors, packed, (repr(packed),))


def _flat(tf: Any, structure: Any) -> list[Any]:
    """The leaves; those of IndexedSlices, gradients of embeddings, are their tensors."""
    return tf.nest.flatten(structure, expand_composites=True)


def _refuse_what_is_no_numbers(tf: Any, value: Any, what: str) -> None:
    if isinstance(value, tf.RaggedTensor | tf.SparseTensor):
        raise UsageError(
            f"{what} is a {type(value).__name__}, whose rows have sizes of their own",
            rule="tensorflow",
            hint="pass and return tensors, such as .to_tensor() or .flat_values and .row_splits",
        )
    if getattr(value, "dtype", None) == tf.string:
        raise UsageError(
            f"{what} is a tensor of strings, and programs compute with numbers only",
            rule="tensorflow",
            hint="look them up before, as with tf.keras.layers.StringLookup",
        )


def _values(inputs: _Arguments, constants: tuple[int, ...]) -> tuple[bytes, ...]:
    return tuple(inputs.tensors[k].numpy().tobytes() for k in constants)


def _lowered(function: Any, inputs: _Arguments) -> _Lowered:
    """The graph of a function for these arguments."""
    tf = _tensorflow()
    name = getattr(_checked(function), "__name__", "function")

    def flat(*tensors: Any) -> Any:
        slots = [tensors[x.number] if isinstance(x, _Slot) else x for x in whole]
        positions, keywords = tf.nest.pack_sequence_as(inputs.whole, slots)
        return function(*positions, **keywords)

    whole = tf.nest.flatten(inputs.whole)
    traced = tf.function(flat, jit_compile=True)
    try:
        concrete = traced.get_concrete_function(*inputs.tensors)
        for leaf in tf.nest.flatten(concrete.structured_outputs):
            _refuse_what_is_no_numbers(tf, leaf, f"a result of {name}")
        code = _code(traced, inputs.tensors, "hlo_serialized")
    except (ValueError, TypeError, NotImplementedError, tf.errors.OpError) as error:
        raise UsageError(
            f"TensorFlow writes no HLO for {name}: {_reason(error)}",
            rule="tensorflow",
            hint="XLA compiles functions of tensors of numbers, whose sizes are known",
        ) from error
    module = api.load_bytes(code).module
    argument_count = len(module.entry.parameters) - len(concrete.captured_inputs)
    constants = _constants(tf, traced, inputs.tensors, len(inputs.tensors) - argument_count, name)
    own_count = sum(x is not None for x in _flat(tf, concrete.structured_outputs))
    assigned = _assigned(module, own_count, argument_count, _captured(concrete), name)
    return _Lowered(concrete, module, constants, assigned)


def _assigned(
    module: Module, own_count: int, argument_count: int, captured: Sequence[Any], name: str
) -> tuple[Any, ...]:
    """The variables that the results behind the function's own are for, in their order."""
    shape = module.entry.root.shape
    result_count = len(shape.elements) if shape.is_tuple else 1
    variables: list[Any] = []
    for k in range(own_count, result_count):
        alias = module.input_output_alias
        entry = alias.for_output((k,) if shape.is_tuple else ()) if alias is not None else None
        number = -1 if entry is None else entry.parameter_number - argument_count
        if number < 0 or not hasattr(captured[number], "assign"):
            raise UsageError(
                f"{name} returns {own_count} tensors, its program {result_count}, and of result "
                f"{k} it is not said to which variable it is assigned",
                rule="tensorflow",
                hint="return what is to be assigned",
            )
        variables.append(captured[number])
    return tuple(variables)


def _code(traced: Any, tensors: Sequence[Any], stage: str) -> Any:
    """The program as bytes, or as text, which is the same each time."""
    return traced.experimental_get_compiler_ir(*tensors)(stage=stage)


def _reason(error: Exception) -> str:
    """What TensorFlow says, in one line: the last, where the first is that of a traceback."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()] or [""]
    return lines[-1] if lines[0].startswith("in user code") else lines[0]


def _constants(
    tf: Any, traced: Any, tensors: Sequence[Any], count: int, name: str
) -> tuple[int, ...]:
    """The tensors, `count` of them, that are no parameters: with other values, other programs."""
    if count in (0, len(tensors)):
        return tuple(range(count))
    code, constants = _code(traced, tensors, "hlo"), []
    for k, tensor in enumerate(tensors):
        if not tf.is_tensor(tensor):
            continue
        others = [*tensors]
        others[k] = ~tensor if tensor.dtype.is_bool else tensor + 1
        try:
            is_same = _code(traced, others, "hlo") == code
        except (ValueError, TypeError, NotImplementedError, tf.errors.OpError):
            is_same = False
        if not is_same:
            constants.append(k)
    if len(constants) != count:
        raise UsageError(
            f"the program of {name} takes {len(tensors) - count} of its {len(tensors)} tensors, "
            "and which of them are constants of it cannot be told",
            rule="tensorflow",
            hint="let the function take sizes and counts from outside, as numbers of Python",
        )
    return tuple(constants)


def _captured(concrete: Any) -> list[Any]:
    """What the program takes behind its arguments: variables and other tensors."""
    handles = {id(v.handle): v for v in concrete.graph.variables}
    return [handles.get(id(x), x) for x in concrete.captured_inputs]


def _value(captured: Any) -> Any:
    """A variable as it is now; a tensor."""
    return captured.read_value() if hasattr(captured, "read_value") else captured


def _checked(function: Any) -> Any:
    if not callable(function):
        raise UsageError(f"a {type(function).__name__} cannot be called", rule="function")
    return function


def _tensorflow() -> Any:
    """TensorFlow; `UsageError` where it is not installed."""
    try:
        import tensorflow
    except ImportError as error:
        raise UsageError(
            f"hloom.tensorflow needs TensorFlow, which cannot be imported: {error}",
            rule="tensorflow",
            hint="pip install tensorflow",
        ) from None
    return tensorflow
