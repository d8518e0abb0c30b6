"""How exact a result must be: operand precision, dot algorithms, result accuracy."""

from dataclasses import dataclass

from hloom.ir.text.cursor import Cursor

PRECISIONS = {"default": 0, "high": 1, "highest": 2}
"""Text to number in the proto enum `PrecisionConfig.Precision`."""

ALGORITHMS = {
    "unset": 0,
    "dot_any_f8_any_f8_f32": 1,
    "dot_any_f8_any_f8_f32_fast_accum": 2,
    "dot_f16_f16_f16": 3,
    "dot_f16_f16_f32": 4,
    "dot_bf16_bf16_bf16": 5,
    "dot_bf16_bf16_f32": 6,
    "dot_bf16_bf16_f32_x3": 7,
    "dot_bf16_bf16_f32_x6": 8,
    "dot_tf32_tf32_f32": 9,
    "dot_tf32_tf32_f32_x3": 10,
    "dot_f32_f32_f32": 11,
    "dot_f64_f64_f64": 12,
    "dot_bf16_bf16_f32_x9": 13,
    "dot_bf16_bf16_fp8x3": 14,
    "dot_bf16_bf16_fp8x4": 15,
}
"""Text to number in the proto enum `PrecisionConfig.Algorithm`."""

ALGORITHM_NAMES = {number: name for name, number in ALGORITHMS.items()}
PRECISION_NAMES = {number: name for name, number in PRECISIONS.items()}


def parse_precisions(cursor: Cursor) -> tuple[str, ...]:
    """Read `{highest,default}`: one word per operand, small letters in the value."""
    cursor.expect("{", "to start operand precisions")
    words: list[str] = []
    while not cursor.eat("}"):
        if words:
            cursor.expect(",", "between operand precisions")
        words.append(_word(cursor, "precision", PRECISIONS))
    return tuple(words)


def parse_algorithm(cursor: Cursor) -> str:
    """Read the name of a dot algorithm, e.g. `dot_bf16_bf16_f32_x3`."""
    return _word(cursor, "dot algorithm", ALGORITHMS)


def _word(cursor: Cursor, what: str, known: dict[str, int]) -> str:
    start = cursor.skip()
    word = cursor.name(f"a {what}")
    if word.lower() not in known:
        cursor.fail(
            f"unknown {what} {word!r}",
            start,
            length=len(word),
            hint=f"known: {', '.join(known)}",
        )
    return word.lower()


@dataclass(frozen=True, slots=True)
class ResultAccuracy:
    """A mode (`default`, `highest`), or a tolerance when `mode` is None.

    A tolerance holds when the error is at most `atol + rtol * |exact|`, or at most `ulps` units
    in the last place. Text `{mode=highest}` or `{tolerance={atol=0,rtol=0.1,ulps=2}}`.
    """

    mode: str | None = "default"
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    @property
    def is_default(self) -> bool:
        return self.mode == "default"

    @property
    def text(self) -> str:
        if self.mode is not None:
            return "{mode=" + self.mode + "}"
        return (
            "{tolerance={atol="
            + show_number(self.atol)
            + ",rtol="
            + show_number(self.rtol)
            + f",ulps={self.ulps}"
            + "}}"
        )


def show_number(value: float) -> str:
    """The shortest text that reads back as the same number."""
    short = f"{value:g}"
    return short if float(short) == value or value != value else repr(float(value))


def parse_result_accuracy(cursor: Cursor) -> ResultAccuracy:
    """Read `{mode=...}` or `{tolerance={...}}`."""
    cursor.expect("{", "to start a result accuracy")
    at = cursor.skip()
    word = cursor.name("mode= or tolerance=")
    cursor.expect("=")
    if word == "mode":
        accuracy = ResultAccuracy(_word(cursor, "accuracy mode", {"default": 0, "highest": 1}))
    elif word == "tolerance":
        accuracy = _parse_tolerance(cursor)
    else:
        cursor.fail(f"expected mode= or tolerance=, found {word!r}", at, length=len(word))
    cursor.expect("}", "to end a result accuracy")
    return accuracy


def _parse_tolerance(cursor: Cursor) -> ResultAccuracy:
    cursor.expect("{", "to start a tolerance")
    values: dict[str, float] = {}
    while not cursor.eat("}"):
        if values:
            cursor.expect(",", "between the parts of a tolerance")
        at = cursor.skip()
        name = cursor.name("atol=, rtol= or ulps=")
        if name not in ("atol", "rtol", "ulps") or name in values:
            cursor.fail(f"expected each of atol, rtol, ulps once, found {name!r}", at)
        cursor.expect("=")
        at = cursor.skip()
        value = cursor.number()
        if not 0 <= value < float("inf"):
            cursor.fail(f"{name} must be a number that is not negative", at)
        values[name] = value
    ulps = values.get("ulps", 0.0)
    return ResultAccuracy(None, values.get("atol", 0.0), values.get("rtol", 0.0), int(ulps))
