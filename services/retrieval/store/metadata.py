"""Metadata as exact-match terms and sortable numbers.

Nested fields are addressed as ``outer.inner``; a list contributes each of its values. Integers and
floats of equal value are equal; ``true`` equals neither 1 nor "1".
"""

import hashlib
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Scalar = str | int | float | bool

MAX_TERM = 512
"""Maximum bytes of a literal term; longer ones are replaced by their hash."""


@dataclass(frozen=True, slots=True)
class MetadataTerms:
    """``terms`` for equality filters, `sortable` ``numbers`` for range filters."""

    terms: list[str]
    numbers: dict[str, list[int]]


def metadata_terms(metadata: Mapping[str, object]) -> MetadataTerms:
    """The terms and numbers of a passage's metadata; nulls contribute nothing."""
    facts = MetadataTerms([], {})
    for field, value in _scalars(metadata, ""):
        facts.terms.append(metadata_term(field, value))
        if not isinstance(value, str | bool) and (number := sortable(value)) is not None:
            facts.numbers.setdefault(number_field(field), []).append(number)
    return facts


def metadata_term(field: str, value: Scalar) -> str:
    """The term for "field equals value"."""
    return bounded_term(f"{field}\x1f{_spelled(value)}")


def number_field(field: str) -> str:
    """The index field for a metadata field's numbers; hashed, as any text may be a field name."""
    return "n" + hashlib.blake2b(field.encode("utf-8", "replace"), digest_size=10).hexdigest()


def sortable(value: float) -> int | None:
    """Order-preserving 64-bit integer for a number; None for non-finite ones.

    tantivy's own float comparison fails for fields that hold integers only.
    """
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    (bits,) = struct.unpack("<q", struct.pack("<d", number + 0.0))
    return int(bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF)


def bounded_term(term: str) -> str:
    """The term, or its hash when it is too long for the index."""
    encoded = term.encode("utf-8", "replace")
    if len(encoded) <= MAX_TERM:
        return encoded.decode()
    return "\x1e" + hashlib.blake2b(encoded, digest_size=32).hexdigest()


def _scalars(value: object, field: str) -> Iterator[tuple[str, Scalar]]:
    """All scalars within ``value``, with their field paths."""
    match value:
        case str() | bool() | int() | float():
            yield field, value
        case Mapping():
            for name, inner in value.items():
                yield from _scalars(inner, f"{field}.{name}" if field else str(name))
        case Sequence():
            for inner in value:
                yield from _scalars(inner, field)


def _spelled(value: Scalar) -> str:
    if isinstance(value, str):
        return f"s{value}"
    if isinstance(value, bool):
        return f"b{value:d}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"n{value!r}"
