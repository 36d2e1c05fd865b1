"""All that the answers and grades of an evaluation depend on, and in what two of them differ."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from services.contracts.evaluation.benchmarks import benchmark_of
from services.contracts.evaluation.evaluations import CreateEvaluation

Parts = Mapping[str, JsonValue]
"""What an evaluation depends on, by the name of the request's field or by those below."""

FILE = "file"
WEIGHTS = "weights"
ADAPTER = "adapter"
STOP_TOKENS = "stop_token_ids"
CODE = "code"
ENGINE = "engine"
GRADING = "grading"
_DIFFERENCES = {
    FILE: "the file's content differs",
    WEIGHTS: "the model's weights differ",
    ADAPTER: "the model's adapter differs",
    STOP_TOKENS: "the model's stop tokens differ",
    CODE: "another version of Temper",
    ENGINE: "another version of the engine",
    GRADING: "another version of what grades: a runtime, or the package of an extension",
}
_UNRELATED = {
    *("model", "file", "fresh", "name"),
    *("gpus", "devices", "priority", "deadline_seconds", "metadata", "max_concurrency"),
}
"""Fields of a request that are compared otherwise, or change neither answers nor grades."""
_ENGINE_OPTIONS = ("max_model_len", "dtype")
"""Others change how fast a model answers, and its answers at most by rounding."""
_LONG = 200
_SHOWN = 5


def request_parts(request: CreateEvaluation) -> dict[str, JsonValue]:
    """The parts given by the request; with several benchmarks, each prefixed with its name."""
    parts: dict[str, JsonValue] = {}
    for name, each in request.by_benchmark().items():
        parts |= _flat(_fields(each), "" if name is None else f"{name}.")
    return parts


def _fields(request: CreateEvaluation) -> dict[str, Any]:
    """The fields that change answers or grades: one that is not known to be unrelated does."""
    fields = request.model_dump(mode="json", exclude=_UNRELATED)
    fields["pass_threshold"] = request.passing_score
    fields["engine"] = {name: fields["engine"][name] for name in _ENGINE_OPTIONS}
    if request.benchmark is not None:
        # The name of a benchmark says nothing about its prompt, which a version may change.
        fields["benchmark"] = benchmark_of(request.benchmark).model_dump(mode="json")
    return fields


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None:
            text = json.dumps(value, sort_keys=True)
            is_long = len(text) > _LONG
            yield prefix + name, hashlib.sha256(text.encode()).hexdigest() if is_long else value


def differences(one: Parts, other: Parts) -> list[str]:
    """The names of the parts that are not equal; null is as good as missing."""
    names = dict.fromkeys([*one, *other])
    return [name for name in names if one.get(name) != other.get(name)]


def described(different: Sequence[str]) -> str:
    """The differences in words."""
    texts = [_DIFFERENCES.get(name, f"{name} differs") for name in different]
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f", and {more} more" if more > 0 else "")


_CODE = Path(__file__).parents[2]
_OTHER_CODE = {"api", "campaigns", "trainer"}
"""Rooms that neither ask nor grade."""


@cache
def code_version() -> str:
    """A checksum of the code that asks and grades, so that no change to it can be forgotten."""
    digest = hashlib.sha256()
    for path in sorted(_CODE.rglob("*.py")):
        place = path.relative_to(_CODE)
        if place.parts[0] not in _OTHER_CODE:
            digest.update(f"{place}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
