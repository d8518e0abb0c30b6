"""Which dimension of a convolution's operands and result means what: `b01f_01io->b01f`.

Each of the three words has one letter per dimension: `b` batch, `f` feature, `i`/`o` the kernel's
input/output feature, a digit for a spatial dimension, `?` for one that means nothing.
"""

import re
from dataclasses import dataclass

from hloom.ir.text.cursor import Cursor

_LABELS = re.compile(r"([0-9bf?]{2,})_([0-9io?]{2,})->([0-9bf?]{2,})")


@dataclass(frozen=True, slots=True)
class ConvolutionDimensions:
    """Dimension numbers of a convolution; the names are those of the proto."""

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: tuple[int, ...]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: tuple[int, ...]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: tuple[int, ...]

    @property
    def spatial_rank(self) -> int:
        return len(self.input_spatial_dimensions)

    @property
    def text(self) -> str:
        lhs = _word(
            "bf",
            (self.input_batch_dimension, self.input_feature_dimension),
            self.input_spatial_dimensions,
        )
        rhs = _word(
            "io",
            (self.kernel_input_feature_dimension, self.kernel_output_feature_dimension),
            self.kernel_spatial_dimensions,
        )
        out = _word(
            "bf",
            (self.output_batch_dimension, self.output_feature_dimension),
            self.output_spatial_dimensions,
        )
        return f"{lhs}_{rhs}->{out}"


_LONGEST = 1000
"""No word has a letter for each of more dimensions than this: what has is no valid value."""


def _word(letters: str, named: tuple[int, int], spatial: tuple[int, ...]) -> str:
    """One of the three words; a dimension without a meaning is `?`."""
    length = max((*named, *spatial)) + 1
    if length > _LONGEST or min((*named, *spatial)) < 0:
        return f"?{length}"
    word = ["?"] * length
    for letter, dimension in zip(letters, named):
        word[dimension] = letter
    for i, dimension in enumerate(spatial):
        word[dimension] = str(i)
    return "".join(word)


def parse_conv_dims(cursor: Cursor) -> ConvolutionDimensions:
    """Read `lhs_rhs->out` dimension labels."""
    start = cursor.skip()
    match = cursor.match(_LABELS)
    if not match:
        cursor.fail(
            f"expected dimension labels such as b01f_01io->b01f, found {cursor.next_text()}"
        )
    spatial_rank = sum(c.isdigit() for c in match[1])
    numbers: list[tuple[int, int, tuple[int, ...]]] = []
    for word, letters, what in zip(match.groups(), ("bf", "io", "bf"), ("lhs", "rhs", "output")):
        named = [c for c in word if c != "?"]
        expected = set(letters) | {str(i) for i in range(spatial_rank)}
        at = start if what == "lhs" else match.start(2 if what == "rhs" else 3)
        if len(set(named)) != len(named):
            cursor.fail(f"{what} dimension labels {word} repeat a label", at, length=len(word))
        if set(named) != expected:
            missing = ", ".join(sorted(expected - set(named)) + sorted(set(named) - expected))
            cursor.fail(
                f"{what} dimension labels {word} do not match the lhs in: {missing}",
                at,
                length=len(word),
            )
        first, second = (word.index(letter) for letter in letters)
        numbers.append((first, second, tuple(word.index(str(i)) for i in range(spatial_rank))))
    (b, f, s), (i, o, ks), (ob, of, os) = numbers
    return ConvolutionDimensions(b, f, s, i, o, ks, ob, of, os)
