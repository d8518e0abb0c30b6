"""Handlers of custom calls: Python functions, functions of shared libraries, XLA FFI handlers.

A handler is registered by name for one or more stages (instantiate once per executable, prepare and
initialize before a run, execute). Compiled programs reach all of them the same way: through the
registry of the native runtime, which knows function pointers only. The trick: for a Python function
that pointer is a ctypes callback, which views the buffers as numpy arrays and copies nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hloom.base.diagnostics import HloError, UsageError
from hloom.runtime.call_frame import STAGES, CallFrame, RawCallFrame, decoded, view
from hloom.runtime.native import library
from hloom.runtime.raised import hold_raised
from hloom.types.attributes import Attribute, Typed
from hloom.types.dtype import BY_NAME, TOKEN

CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS"
    " PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED"
    " INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED"
).split()


NUMBERS: dict[str, int] = {code: number for number, code in enumerate(CODES)}


class HandlerError(HloError):
    """What a handler raises to fail the execution with a status; `code` is one of `CODES`."""

    def __init__(self, message: str, code: str = "INVALID_ARGUMENT") -> None:
        super().__init__(message, rule="custom-call")
        self.code = code


@dataclass(slots=True)
class Call:
    """One call of a handler: its arguments, the memory of its results, its attributes.

    In the instantiate stage there are no arrays. A token is an array of bool without elements.
    Memory is seen row by row, whatever layouts the call states. `kept` is what instantiate
    returned, for this call site of this executable.
    """

    arguments: list[np.ndarray]
    results: list[np.ndarray]
    attributes: dict[str, Attribute]
    stage: str
    run_id: int
    threads: int
    device: int
    kept: Any = None
    argument_tokens: list[bool] = field(default_factory=list)
    """Which of the arguments are tokens."""
    result_tokens: list[bool] = field(default_factory=list)
    context: int = 0
    """The address of the execution's context."""

    def user_data(self, type_id: int) -> int:
        """The address of what this execution was given under a type's number; 0: nothing."""
        user_data_of = library().hl_context_user_data
        user_data_of.restype = ctypes.c_void_p
        return user_data_of(ctypes.c_void_p(self.context), ctypes.c_int64(type_id)) or 0

    def attribute(self, name: str, dtype: str, many: bool = False) -> Any:
        """A number attribute (a list of them if `many`) of exactly that element type."""
        value = self._attribute(name)
        if not isinstance(value, Typed) or (np.ndim(value.value) == 1) != many:
            raise HandlerError(f"attribute {name!r} is no {'array' if many else 'scalar'}")
        if value.dtype is not BY_NAME[dtype]:
            raise HandlerError(f"attribute {name!r} is of type {value.dtype}, not {dtype}")
        return value.value

    def text(self, name: str) -> str:
        """A string attribute."""
        value = self._attribute(name)
        if not isinstance(value, str):
            raise HandlerError(f"attribute {name!r} is no string")
        return value

    def dictionary(self, name: str) -> Mapping[str, Attribute]:
        """A dictionary attribute."""
        value = self._attribute(name)
        if isinstance(value, str | Typed):
            raise HandlerError(f"attribute {name!r} is no dictionary")
        return value

    def one_of(self, name: str, dtype: str, names: Mapping[int, str]) -> str:
        """An enum attribute: the name of its number."""
        number = int(self.attribute(name, dtype))
        if number not in names:
            raise HandlerError(f"attribute {name!r} is {number}, not one of {sorted(names)}")
        return names[number]

    def argument(self, k: int, dtype: str | None = None, rank: int | None = None) -> np.ndarray:
        """Argument k, of that type and rank if they are given."""
        return _checked("argument", self.arguments, k, dtype, rank)

    def result(self, k: int, dtype: str | None = None, rank: int | None = None) -> np.ndarray:
        """The memory of result k; what is written there is the result."""
        return _checked("result", self.results, k, dtype, rank)

    def remaining(self, start: int) -> list[np.ndarray]:
        """The arguments from `start` on."""
        return self.arguments[start:]

    def _attribute(self, name: str) -> Attribute:
        if name not in self.attributes:
            raise HandlerError(f"attribute {name!r} is missing", code="NOT_FOUND")
        return self.attributes[name]


def _checked(
    what: str, arrays: list[np.ndarray], k: int, dtype: str | None, rank: int | None
) -> np.ndarray:
    if k >= len(arrays):
        raise HandlerError(f"{what} {k} is missing: there are {len(arrays)}")
    array = arrays[k]
    if dtype is not None and array.dtype != BY_NAME[dtype].numpy:
        raise HandlerError(f"{what} {k} is of type {array.dtype}, not {dtype}")
    if rank is not None and array.ndim != rank:
        raise HandlerError(f"{what} {k} has rank {array.ndim}, not {rank}")
    return array


class RawContext(ctypes.Structure):
    """The part of hl_context that everybody may read."""

    _fields_ = [(n, ctypes.c_int32) for n in ("status", "cancel", "threads", "device")]


_KEPT: dict[int, Any] = {}
"""What Python functions returned from instantiate, by the address of the call's slot."""


IN_ORDER = 1 << 16
"""HL_HANDLER_IN_ORDER of native/custom_call.h."""


def root_context(context: int) -> int:
    """The context that the program was executed in, of which this one may be a part."""
    return library().hl_context_root(context)


def forget(slot: int) -> None:
    """Let go of what is kept for the call whose state slot stands at this address."""
    _KEPT.pop(slot, None)


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(RawCallFrame))


@dataclass(slots=True)
class _PythonHandler:
    """The native entry of Python functions by stage."""

    name: str
    stages: dict[str, Callable[[Call], Any]]

    def __call__(self, context: int, raw: Any) -> int:
        try:
            self._run(context, raw.contents)
        except HandlerError as error:
            return set_error(context, error.code, f"custom call {self.name}: {error.message}")
        except BaseException as error:
            # Also Ctrl-C: whatever escaped from here would be lost, and the program go on.
            hold_raised(root_context(context), error)
            message = f"custom call {self.name}: {type(error).__name__}: {error}"
            return set_error(context, "INTERNAL", message)
        return 0

    def _run(self, context: int, raw: RawCallFrame) -> None:
        stage = STAGES[raw.stage]
        known = RawContext.from_address(context)
        slot = ctypes.addressof(raw.state.contents) if raw.state else 0
        instantiating = stage == "instantiate"
        operands = [] if instantiating else raw.operands[: raw.operand_count]
        results = [] if instantiating else raw.results[: raw.result_count]
        call = Call(
            [view(b, writable=False) for b in operands],
            [view(b, writable=True) for b in results],
            decoded(raw.attribute_count, raw.attributes),
            stage,
            raw.run_id,
            known.threads,
            known.device,
            _KEPT.get(slot),
            [b.dtype == TOKEN.number for b in operands],
            [b.dtype == TOKEN.number for b in results],
            context,
        )
        returned = self.stages[stage](call)
        if instantiating and slot:
            _KEPT[slot] = returned


def set_error(context: int, code: str, message: str) -> int:
    """Record an error by the name of its status, whose number comes back."""
    status = NUMBERS.get(code, NUMBERS["UNKNOWN"])
    text = message.encode(errors="replace")
    library().hl_set_error_text(ctypes.c_void_p(context), ctypes.c_int32(status), text)
    return status


def _add(name: str, address: Any, user: Any, stages: int) -> None:
    runtime = library()
    status = runtime.hl_custom_call_register(name.encode(), address, user, ctypes.c_int64(stages))
    if status:
        raise UsageError(f"the handler {name!r} could not be registered ({CODES[status]})")


def _immortal(value: Any) -> Any:
    """The native registry keeps bare pointers and forgets none, so what they lead to stays."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    return value


def register(
    name: str,
    execute: Callable[[Call], Any],
    *,
    instantiate: Callable[[Call], Any] | None = None,
    prepare: Callable[[Call], Any] | None = None,
    initialize: Callable[[Call], Any] | None = None,
    concurrent: bool = False,
) -> None:
    """Makes Python functions the handler of custom calls to `name`, in place of an earlier one.

    Calls that need nothing of each other come in the order of the program; `concurrent` functions
    may be called by several threads at once, in any order, but for calls with side effects.

    They are called with the GIL held. A HandlerError's code is the status of the execution; any
    other exception is an INTERNAL error, and its cause; Ctrl-C comes out of the execution.
    """
    by_stage = dict(zip(STAGES, (instantiate, prepare, initialize, execute)))
    stages = {stage: function for stage, function in by_stage.items() if function is not None}
    callback = _immortal(_CALLBACK(_PythonHandler(name, stages)))
    bits = (0 if concurrent else IN_ORDER) | sum(1 << STAGES.index(stage) for stage in stages)
    _add(name, ctypes.cast(callback, ctypes.c_void_p), None, bits)


def register_symbol(name: str, path: str, symbol: str, api: str = "xla") -> None:
    """Makes a function of a shared library the handler of custom calls to `name`.

    `api` is what it is: `hloom` (an hl_handler), `xla` (an XLA_FFI_Handler), `status` (takes out,
    in, opaque, size and a status) or `original` (takes out and in).
    """
    ctypes.CDLL(library()._name, mode=ctypes.RTLD_GLOBAL)  # it may call XlaCustomCallStatusSet...
    try:
        function = getattr(ctypes.CDLL(path), symbol)
    except (OSError, AttributeError) as error:
        raise UsageError(f"no function {symbol!r} in {path}: {error}") from None
    register_pointer(name, ctypes.cast(function, ctypes.c_void_p).value or 0, api)


def register_pointer(name: str, address: int, api: str = "xla") -> None:
    """The same for a function in memory."""
    runtime = library()
    pointer = ctypes.c_void_p(address)
    entries = {"status": "hl_status_custom_call", "original": "hl_original_custom_call"}
    if api == "xla":
        register_bundle(name, {"execute": address})
    elif api == "hloom":
        _add(name, pointer, None, 1 << STAGES.index("execute"))
    elif api in entries:
        entry = ctypes.cast(getattr(runtime, entries[api]), ctypes.c_void_p)
        _add(name, entry, pointer, 1 << STAGES.index("execute"))
    else:
        raise UsageError(f"no kind of handler is called {api!r}: hloom, xla, status, original")


def register_capsule(name: str, capsule: Any, api_version: int = 1, *, packed: bool = True) -> None:
    """A handler as jax.ffi has it: a PyCapsule, or capsules by stage. api_version 1: XLA FFI.

    Or a type of its states, as `register_type` takes it. `packed` as for `register_bundle`.
    """
    if isinstance(capsule, Mapping) and "type_id" in capsule:
        register_type(name, capsule)
        return
    if api_version not in (0, 1):
        raise UsageError(
            f"api_version={api_version} of {name!r}: 1 is the typed FFI, 0 the old one"
        )
    if isinstance(capsule, Mapping):
        if api_version == 0 or "execute" not in capsule:
            raise UsageError(f"handlers of {name!r} by stage need api_version=1 and `execute`")
        register_bundle(name, {s: _address(c) for s, c in capsule.items()}, packed=packed)
    elif api_version:
        register_bundle(name, {"execute": _address(capsule)}, packed=packed)
    else:
        register_pointer(name, _address(capsule), "status")


def _address(capsule: Any) -> int:
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer_of(capsule, name_of(capsule))


def register_bundle(name: str, addresses: Mapping[str, int], *, packed: bool = True) -> None:
    """XLA FFI handlers by stage, after asking each for the version of the ABI it was built for.

    They find elements below a byte packed, as XLA hands them over, while dimensions count elements.
    Not `packed`: a byte for each, which is what those need that make arrays of the dimensions.
    """
    runtime = library()
    bundle = _immortal((ctypes.c_void_p * (len(STAGES) + 1))())
    bundle[len(STAGES)] = 0 if packed else 1
    bits = 0
    for stage, address in addresses.items():
        if stage not in STAGES:
            raise UsageError(f"{stage!r} is no stage of a handler: {', '.join(STAGES)}")
        major, minor, traits = (ctypes.c_int64() for _ in range(3))
        status = runtime.hl_xla_ffi_metadata(
            ctypes.c_void_p(address), ctypes.byref(major), ctypes.byref(minor), ctypes.byref(traits)
        )
        if status or major.value != 0 or minor.value > 5:
            raise UsageError(
                f"the handler {name!r} was built for XLA FFI {major.value}.{minor.value}; hloom"
                " calls 0.5 and older"
            )
        bundle[STAGES.index(stage)] = address
        bits |= 1 << STAGES.index(stage)
    entry = ctypes.cast(runtime.hl_xla_ffi_call, ctypes.c_void_p)
    _add(name, entry, ctypes.cast(bundle, ctypes.c_void_p), bits)


def register_type(name: str, registration: Mapping[str, Any]) -> None:
    """Makes a type known in which XLA FFI handlers keep state, as jax.ffi.register_ffi_type does.

    `registration` has `type_id` and `type_info`: PyCapsules, or the addresses of both.
    """
    if set(registration) != {"type_id", "type_info"}:
        raise UsageError(
            f"the type {name!r} is registered with {', '.join(registration) or 'nothing'}",
            hint="give its `type_id` and its `type_info`",
        )
    places = {k: v if isinstance(v, int) else _address(v) for k, v in registration.items()}
    letters = name.encode()
    status = library().hl_xla_ffi_type_register(
        letters,
        ctypes.c_int64(len(letters)),
        ctypes.c_void_p(places["type_id"]),
        ctypes.c_void_p(places["type_info"]),
    )
    if status:
        raise UsageError(
            f"the type {name!r} could not be registered ({CODES[status]}): its number is taken, or"
            " it has another one already"
        )


def find(name: str) -> ctypes.c_void_p | None:
    """The registry's entry, for programs that call it; None without a handler."""
    search = library().hl_custom_call_find
    search.restype = ctypes.c_void_p
    address = search(name.encode())
    return None if address is None else ctypes.c_void_p(address)


def is_handled(name: str) -> bool:
    """Whether somebody answers custom calls to `name`; hloom itself does, to some."""
    return find(name) is not None


def call(context: ctypes.c_void_p, name: str, frame: CallFrame) -> int:
    """Runs the handler on a frame made in Python; the status, told to the context if not 0."""
    entry = find(name)
    if entry is None:
        raise UsageError(
            f"no handler is registered for custom calls to {name!r}",
            rule="custom-call",
            hint="register one with hloom.runtime.ffi",
        )
    return library().hl_custom_call_run(context, entry, ctypes.byref(frame.raw))
