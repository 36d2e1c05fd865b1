"""Rows of PANORAMA (LG-AI-Research/PANORAMA): the correct answers of each task."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest

CODES = ("ALLOW", "102", "103")
"""Codes of a claim: allowed, not novel (35 U.S.C. 102), or obvious (103)."""


@dataclass(frozen=True)
class Question:
    """The correct options and the half correct ones; for noc4pc the code alone."""

    gold: frozenset[str]
    silver: frozenset[str] = frozenset()


def read_question(row: JsonObject, golds: Sequence[str], task: str) -> Question:
    """The correct answer; raises `InvalidRequest` with the field at fault as its ``param``."""
    if task == "noc4pc":
        return Question(frozenset({_code(golds)}))
    gold, silver = (_keys(row.get(field), field) for field in ("gold_answers", "silver_answers"))
    if not gold:
        raise InvalidRequest("is missing or empty", param="gold_answers")
    options = _decoded(row.get("options"), "options")
    if isinstance(options, dict) and (unknown := sorted((gold | silver) - set(options))):
        raise InvalidRequest(
            f"has {', '.join(unknown)}, which is not an option", param="gold_answers"
        )
    return Question(gold, silver)


def key_of(value: JsonValue) -> str | None:
    """The key of an option: an upper-case letter, or an integer; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and 0 < len(value.strip()) <= 10:
        return value.strip().upper()
    return None


def _code(golds: Sequence[str]) -> str:
    answer = _decoded(golds[0], "answer") if golds else None
    code = key_of(answer.get("code")) if isinstance(answer, dict) else None
    if code not in CODES:
        raise InvalidRequest(f"has no code out of {', '.join(CODES)}", param="answer")
    return str(code)


def _keys(value: JsonValue, field: str) -> frozenset[str]:
    found = _decoded(value, field)
    keys = [key_of(each) for each in (found if isinstance(found, list) else [])]
    if None in keys or (found is not None and not isinstance(found, list)):
        raise InvalidRequest("is not a list of letters or numbers of options", param=field)
    return frozenset(str(key) for key in keys)


def _decoded(value: JsonValue, field: str) -> JsonValue:
    """Decode a value that may be JSON text."""
    if not isinstance(value, str):
        return value
    try:
        decoded: JsonValue = json.loads(value)
    except (ValueError, RecursionError):
        raise InvalidRequest("is not JSON", param=field) from None
    return decoded
