"""hloom for JAX functions without a backend: `hloom.jax.lower(f, *args)`, `hloom.jax.jit(f)`.

    step = hloom.jax.jit(f, static_argnums=1)   # compiled when it is called
    y = step(x, 3)                              # pytrees of numpy arrays, or of JAX's
    module = hloom.jax.lower(f, x, 3)           # a graph, to look at and to change

JAX traces the function and writes StableHLO for a CPU, whatever its own backend is; nothing runs
on JAX. A function of `jit` here is the end of the line: JAX cannot trace, differentiate or batch
it, so `grad` and `vmap` belong inside. `JAX_PLATFORMS=hloom` is the way for whole programs.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom import api
from hloom.api import Executable, Module, UsageError

if TYPE_CHECKING:
    from hloom.aot.export import CLibrary

Numbers = int | Sequence[int] | None
Names = str | Iterable[str] | None


def lower(
    function: Callable[..., Any],
    *arguments: Any,
    static_argnums: Numbers = None,
    static_argnames: Names = None,
    donate_argnums: Numbers = None,
    **keywords: Any,
) -> Module:
    """The graph of a function for arguments like these; `jax.ShapeDtypeStruct`s will do.

    Its parameters are the leaves of the arguments that are not static, in JAX's order, those that
    the function does not use among them; a tuple of the results' leaves is its result.
    """
    jitted = jit(
        function,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
    )
    return jitted.lower(*arguments, **keywords)


def export_c(
    function: Callable[..., Any] | Mapping[str, tuple[Any, ...]],
    *arguments: Any,
    path: str | Path,
    header_path: str | Path | None = None,
    static_argnums: Numbers = None,
    static_argnames: Names = None,
    donate_argnums: Numbers | Mapping[str, Numbers] = None,
    name: str | None = None,
    argument_names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    result_names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    options: Mapping[str, Any] | Iterable[str] | None = None,
    weights: str | Path | None = None,
    pool: bool = False,
    threads: int = 1,
    versions: Sequence[str] = (),
    buckets: Mapping[str, Sequence[int]] | None = None,
    weight_argnums: Numbers | Mapping[str, Numbers] = None,
    **keywords: Any,
) -> CLibrary:
    """Write the function for arguments like these as a C library (`hloom.export_c`).

    Arguments that are donated may come back in place. Several functions are a dict of
    `(function, *arguments)`, `{"prefill": (f, x), "decode": (g, y)}`, names and donations, too.
    `buckets={"batch": (1, 8)}`: arguments of `jax.export.symbolic_shape("batch, 3")`.
    `weight_argnums`: arguments that the library takes from the file `weights` by the names of their
    leaves (`params.Dense_0.kernel`); arrays among them are written to it.
    """
    from hloom.aot.export import export_c

    static = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    named = None
    if weight_argnums is not None:
        from hloom.aot.jax_weights import named_leaves

        fixed, _ = _both(function, _numbers(static_argnums), _names(static_argnames))
        named = named_leaves(_jax(), function, arguments, weight_argnums, fixed, _as_array)
    program = _of_library(function, arguments, keywords, donate_argnums, static, buckets)
    return export_c(
        program,
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
        named_weights=named,
    )


def _of_library(
    function: Callable[..., Any] | Mapping[str, tuple[Any, ...]],
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
    donated: Numbers | Mapping[str, Numbers],
    static: Mapping[str, Any],
    buckets: Mapping[str, Sequence[int]] | None,
) -> Any:
    """What a library is made of: a graph, several by name, or what gives one for sizes."""
    if isinstance(function, Mapping):
        if arguments or keywords:
            raise UsageError(
                "arguments of several functions stand beside each: {'f': (f, x, y)}",
                rule="library-entries",
            )
        if buckets is not None:
            raise UsageError("buckets are for a library of one function", rule="library-buckets")
        return _lowered(function, donated, static)
    if isinstance(donated, Mapping):
        raise UsageError("donate_argnums of one function is no dict", rule="library-entries")

    def lowered(**sizes: int) -> Module:
        sized, named = _jax().tree.map(lambda x: _of_size(x, sizes), (arguments, keywords))
        return lower(function, *sized, **static, donate_argnums=donated, **named)

    return lowered() if buckets is None else lowered


def _of_size(leaf: Any, sizes: Mapping[str, int]) -> Any:
    """An argument with numbers for the sizes that it names."""
    from hloom.aot.open_sizes import size_of

    shape = getattr(leaf, "shape", ())
    if all(isinstance(n, int | np.integer) for n in shape):
        return leaf
    return _jax().ShapeDtypeStruct(tuple([size_of(n, sizes) for n in shape]), leaf.dtype)


def _lowered(
    functions: Mapping[str, tuple[Any, ...]],
    donated: Numbers | Mapping[str, Numbers],
    static: Mapping[str, Any],
) -> dict[str, Module]:
    """The graphs of several functions, each with its arguments behind it."""
    if donated is not None and not isinstance(donated, Mapping):
        raise UsageError(
            "donate_argnums of several functions is a dict: {'f': 0}", rule="library-entries"
        )
    numbers = donated or {}
    if unknown := sorted(set(numbers) - set(functions)):
        raise UsageError(f"donate_argnums names no function {unknown[0]}", rule="library-entries")
    return {
        key: lower(f, *values, **static, donate_argnums=numbers.get(key))
        for key, (f, *values) in functions.items()
    }


def jit(
    function: Callable[..., Any],
    *,
    static_argnums: Numbers = None,
    static_argnames: Names = None,
    donate_argnums: Numbers = None,
    threads: int | None = None,
    options: Mapping[str, Any] | Iterable[str] | None = None,
) -> Jitted:
    """The function compiled by hloom, once for each kind of arguments.

    Results are JAX arrays where an argument is one, else numpy arrays. JAX arrays that are donated
    are deleted afterwards. `threads` and `options` are those of `hloom.compile`.
    """
    if not callable(function):
        raise UsageError(f"a {type(function).__name__} cannot be called", rule="function")
    return Jitted(function, static_argnums, static_argnames, donate_argnums, threads, options)


@dataclass(frozen=True)
class _Compiled:
    """What calls with one kind of arguments need."""

    executable: Executable
    donated: tuple[bool, ...]
    """By leaf."""
    out_leaves: tuple[Any, ...]
    """JAX's descriptions of the results."""
    out_tree: Any


class Jitted:
    """A function that hloom compiles when it is called; see `jit`."""

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: Numbers,
        static_argnames: Names,
        donate_argnums: Numbers,
        threads: int | None,
        options: Mapping[str, Any] | Iterable[str] | None,
    ) -> None:
        jax = _jax()
        self.__wrapped__ = function
        self.__name__ = getattr(function, "__name__", "function")
        self._threads, self._options = threads, options
        numbers, names = _numbers(static_argnums), _names(static_argnames)
        self._static_numbers, self._static_names = _both(function, numbers, names)
        self._jitted = jax.jit(
            function,
            static_argnums=tuple(sorted(numbers)) or None,
            static_argnames=tuple(sorted(names)) or None,
            donate_argnums=donate_argnums,
            keep_unused=True,
        )
        self._known: dict[Any, _Compiled] = {}
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        jax = _jax()
        key, leaves = self._key(arguments, keywords)
        compiled = self._known.get(key)
        if compiled is None:
            with self._lock:
                compiled = self._known.get(key)
                if compiled is None:
                    compiled = self._known[key] = self._compiled(arguments, keywords)
        wants_jax = any(isinstance(leaf, jax.Array) for leaf in leaves)
        outcome = compiled.executable(*map(_as_array, leaves))
        # A program of one result that is no tuple returns it bare.
        results = outcome if isinstance(outcome, tuple) else (outcome,)
        for leaf, is_donated in zip(leaves, compiled.donated):
            if is_donated and isinstance(leaf, jax.Array) and not leaf.is_deleted():
                leaf.delete()
        leaves_ = [_as_result(r, t, wants_jax) for r, t in zip(results, compiled.out_leaves)]
        return jax.tree.unflatten(compiled.out_tree, leaves_)

    def lower(self, *arguments: Any, **keywords: Any) -> Module:
        """The graph for arguments like these."""
        return self._lowered(arguments, keywords)[1]

    def compiled(self, *arguments: Any, **keywords: Any) -> Executable:
        """The program for arguments like these, which takes their leaves one by one."""
        return self._compiled(arguments, keywords).executable

    @property
    def compiled_count(self) -> int:
        """For how many kinds of arguments it has been compiled."""
        return len(self._known)

    def _key(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """What a compiled program depends on, and the leaves that are not static."""
        jax = _jax()
        count = len(arguments)
        static = {n + count if n < 0 else n for n in self._static_numbers}
        fixed = tuple((k, type(a), a) for k, a in enumerate(arguments) if k in static)
        fixed += tuple(
            (k, type(a), a) for k, a in sorted(keywords.items()) if k in self._static_names
        )
        free = tuple(a for k, a in enumerate(arguments) if k not in static)
        named = {k: a for k, a in keywords.items() if k not in self._static_names}
        leaves, tree = jax.tree.flatten((free, named))
        kinds = tuple(map(_kind, leaves))
        key = (tree, kinds, fixed, count, bool(jax.config.jax_enable_x64))
        try:
            hash(key)
        except TypeError as error:
            raise UsageError(
                f"a static argument of {self.__name__} is no key: {error}",
                rule="static-argument",
                hint="static arguments must be hashable, such as numbers, strings and tuples",
            ) from None
        return key, leaves

    def _lowered(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Any, Module]:
        """What JAX made of it, and the graph."""
        traced = self._jitted.trace(*arguments, **keywords)
        lowered = traced.lower(lowering_platforms=("cpu",))
        module = api.module_of(lowered)
        assert module is not None
        for computation in module.computations_in_order():
            for i in computation.instructions:
                target = i.attrs.custom_call_target if i.opcode == "custom-call" else ""
                if "python" in target and "callback" in target:
                    raise UsageError(
                        f"{self.__name__} calls Python while it runs ({target})",
                        rule="host-callback",
                        hint="such functions need the backend: JAX_PLATFORMS=hloom, and jax.jit",
                    )
        return lowered, module

    def _compiled(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> _Compiled:
        jax = _jax()
        lowered, module = self._lowered(arguments, keywords)
        donated = tuple(bool(a.donated) for a in jax.tree.leaves(lowered.args_info))
        count = len(module.entry.parameters)
        if count != len(donated):
            raise UsageError(
                f"{self.__name__} has {len(donated)} arrays as arguments, its program {count}",
                rule="argument-count",
                hint="pass arrays that it takes from outside as arguments",
            )
        executable = api.compile(module, threads=self._threads, options=self._options)
        out_leaves, out_tree = jax.tree.flatten(lowered.out_info)
        return _Compiled(executable, donated, tuple(out_leaves), out_tree)


# -- values


def _kind(leaf: Any) -> Any:
    """Type and sizes of a leaf as JAX sees them; two of a kind share a program."""
    jax = _jax()
    if isinstance(leaf, jax.core.Tracer):
        raise UsageError(
            "JAX traces a function of hloom.jax.jit, which has no meaning to it",
            rule="traced",
            hint="put jit, grad, vmap and scan inside of hloom.jax.jit, not around it",
        )
    try:
        type_ = jax.typeof(leaf)
    except TypeError:
        raise UsageError(
            f"a {type(leaf).__name__} is no array, and not declared static",
            rule="argument-type",
            hint="name it in static_argnums or static_argnames",
        ) from None
    return type_.shape, type_.dtype, type_.weak_type


def _as_array(leaf: Any) -> Any:
    """What the program takes: numbers as JAX understands them, keys as their words."""
    jax = _jax()
    if isinstance(leaf, jax.Array):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf)
    array = np.asarray(leaf)
    dtype = jax.dtypes.canonicalize_dtype(jax.typeof(leaf).dtype)
    return array if array.dtype == dtype else array.astype(dtype)


def _as_result(buffer: Any, type_: Any, wants_jax: bool) -> Any:
    """A result as its caller wants it."""
    jax = _jax()
    array = np.asarray(buffer)
    if jax.dtypes.issubdtype(type_.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(array, impl=type_.dtype._impl)
    return jax.device_put(array, jax.devices("cpu")[0]) if wants_jax else array


# -- settings


def _numbers(numbers: Numbers) -> set[int]:
    return set() if numbers is None else {numbers} if isinstance(numbers, int) else set(numbers)


def _names(names: Names) -> set[str]:
    return set() if names is None else {names} if isinstance(names, str) else set(names)


def _both(function: Any, numbers: set[int], names: set[str]) -> tuple[set[int], set[str]]:
    """Numbers and names of the same parameters, as far as the signature tells."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return numbers, names
    ordered = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if numbers and not names:
        names = {ordered[n] for n in numbers if -len(ordered) <= n < len(ordered)}
    elif names and not numbers:
        numbers = {k for k, name in enumerate(ordered) if name in names}
    return numbers, names


def _jax() -> Any:
    """JAX; `UsageError` where it is not installed."""
    try:
        import jax
    except ImportError as error:
        raise UsageError(
            f"hloom.jax needs JAX, which cannot be imported: {error}",
            rule="jax",
            hint="pip install 'hloom[jax]'",
        ) from None
    return jax
