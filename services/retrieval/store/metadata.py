"""A passage's metadata as terms that can be looked up, and as numbers that can be compared.

Fields of an object within the metadata are reached by ``outer.inner``; a list has each of its
values. Whole numbers and fractions of equal value are equal; ``true`` is not 1, nor "1".
"""

import hashlib
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Scalar = str | int | float | bool

MAX_TERM = 512
"""Bytes of a term that is kept as it is; a longer one is known by its digest."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What can be filtered by: ``terms`` for equality, `sortable` ``numbers`` for bounds."""

    terms: list[str]
    numbers: dict[str, list[int]]


def facts_of(metadata: Mapping[str, object]) -> Facts:
    """The facts of a passage's metadata; null has none."""
    facts = Facts([], {})
    for field, value in _scalars(metadata, ""):
        facts.terms.append(fact_term(field, value))
        if not isinstance(value, str | bool) and (number := sortable(value)) is not None:
            facts.numbers.setdefault(number_field(field), []).append(number)
    return facts


def fact_term(field: str, value: Scalar) -> str:
    """The term of "this field has this value"."""
    return bounded_term(f"{field}\x1f{_spelled(value)}")


def number_field(field: str) -> str:
    """The name that a field's numbers are kept under; any text may name a field of metadata."""
    return "n" + hashlib.blake2b(field.encode("utf-8", "replace"), digest_size=10).hexdigest()


def sortable(value: float) -> int | None:
    """A 64-bit integer that is to others as the number is to theirs; None for what is not finite.

    The library's own comparison of fractions fails where a field has whole numbers only.
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
    """The term itself, or what stands for it when it is too long for the index."""
    encoded = term.encode("utf-8", "replace")
    if len(encoded) <= MAX_TERM:
        return encoded.decode()
    return "\x1e" + hashlib.blake2b(encoded, digest_size=32).hexdigest()


def _scalars(value: object, field: str) -> Iterator[tuple[str, Scalar]]:
    """The values within ``value``, each with the path of its field."""
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
