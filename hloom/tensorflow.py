"""hloom for TensorFlow functions: `hloom.tensorflow.lower(f, *args)`, `hloom.tensorflow.jit(f)`.

TensorFlow's bridge writes HLO (`f.experimental_get_compiler_ir`), which needs a `tf.function` with
`jit_compile=True`; a plain Python function is made one. Variables that the function reads are
further parameters, behind its arguments; one that assigns to variables is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from hloom import api
from hloom.api import Module, UsageError


def lower(function: Callable[..., Any], *arguments: Any) -> Module:
    """The graph of a function for tensors like these (or `tf.TensorSpec`s)."""
    return _lowered(_as_function(function), arguments)[1]


def jit(
    function: Callable[..., Any],
    *,
    threads: int | None = None,
    options: Mapping[str, Any] | Iterable[str] | None = None,
) -> Callable[..., Any]:
    """The function compiled by hloom, once for each kind of arguments; tensors in, tensors out."""
    tf = _tensorflow()
    traced = _as_function(function)
    known: dict[Any, tuple[Any, Any]] = {}
    lock = threading.Lock()

    def call(*arguments: Any) -> Any:
        leaves = [tf.convert_to_tensor(a) for a in tf.nest.flatten(arguments)]
        packed = tf.nest.pack_sequence_as(arguments, leaves)
        key = (repr(_structure(tf, arguments)), tuple((x.dtype, tuple(x.shape)) for x in leaves))
        with lock:
            if key not in known:
                concrete, module = _lowered(traced, packed)
                executable = api.compile(module, threads=threads, options=options)
                known[key] = concrete, executable
        concrete, executable = known[key]
        read = [v.read_value() if hasattr(v, "read_value") else v for v in _captured(tf, concrete)]
        found = executable(*[x.numpy() for x in (*leaves, *read)])
        results = found if isinstance(found, tuple) else (found,)
        made = [tf.convert_to_tensor(np.asarray(r)) for r in results]
        return tf.nest.pack_sequence_as(concrete.structured_outputs, made)

    return call


def _lowered(traced: Any, arguments: tuple[Any, ...]) -> tuple[Any, Module]:
    """The concrete function, and its graph."""
    tf = _tensorflow()
    name = getattr(traced, "__name__", "function")
    try:
        concrete = traced.get_concrete_function(*arguments)
        code = traced.experimental_get_compiler_ir(*arguments)(stage="hlo_serialized")
    except (ValueError, TypeError, NotImplementedError, tf.errors.OpError) as error:
        raise UsageError(
            f"TensorFlow writes no HLO for {name}: {str(error).strip().splitlines()[0]}",
            rule="tensorflow",
            hint="XLA compiles functions of static shapes, with jit_compile=True",
        ) from error
    module = api.load_bytes(code).module
    wanted = len(tf.nest.flatten(concrete.structured_outputs))
    shape = module.entry.root.shape
    made = len(shape.elements) if shape.is_tuple else 1
    if made != wanted:
        raise UsageError(
            f"{name} returns {wanted} tensors, its program {made}: it assigns to variables",
            rule="tensorflow",
            hint="return what is to be assigned",
        )
    return concrete, module


def _captured(tf: Any, concrete: Any) -> list[Any]:
    """What the program takes behind its arguments: variables, and tensors from outside."""
    handles = {id(v.handle): v for v in concrete.graph.variables}
    return [handles.get(id(x), x) for x in concrete.captured_inputs]


def _structure(tf: Any, arguments: Any) -> Any:
    return tf.nest.map_structure(lambda _: 0, arguments)


def _as_function(function: Any) -> Any:
    tf = _tensorflow()
    if hasattr(function, "experimental_get_compiler_ir"):
        return function
    if not callable(function):
        raise UsageError(f"a {type(function).__name__} cannot be called", rule="function")
    return tf.function(function, jit_compile=True)


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
