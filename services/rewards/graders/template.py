"""Templates with placeholders like ``{{ item.reference }}``.

A placeholder is ``item`` or ``sample`` and a path: names after dots, numbers in brackets. It is
only looked up: nothing is evaluated, and no attribute of an object is reachable.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.rewards.interface import RewardFailed, RewardFailureKind, Sample

LARGEST = 4 << 20
"""Maximum characters of a rendered template."""

_PLACE = re.compile(r"\{\{([^{}]{0,300})\}\}")
_PATH = re.compile(r"(item|sample)((?:\.[\w-]+|\[\d{1,6}\])*)")
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]")


def check_template(text: str, param: str) -> None:
    """Raise `InvalidRequest` for a placeholder that can never be resolved."""
    for place in _PLACE.finditer(text):
        if _PATH.fullmatch(place[1].strip()) is None:
            shown = place[0][:80]
            raise InvalidRequest(
                f"{shown} is not a placeholder like {{{{ item.name }}}} or "
                "{{ sample.output_text }}",
                param=param,
                code="invalid_variable",
            )


def render(text: str, sample: Sample) -> str:
    """Render the template; raises `RewardFailed` for a placeholder without a value.

    Strings are inserted unchanged, anything else as JSON; lone surrogates, which cannot be
    encoded, become question marks.
    """
    names = {"item": sample.item, "sample": sample.namespace}
    pieces: list[str] = []
    size, end = 0, 0
    for place in _PLACE.finditer(text):
        pieces += (text[end : place.start()], _written(_look_up(place[1].strip(), names)))
        end = place.end()
        size += len(pieces[-2]) + len(pieces[-1])
        if size > LARGEST:
            raise RewardFailed(f"a filled-in text is longer than {LARGEST} characters")
    return "".join((*pieces, text[end:])).encode("utf-8", "replace").decode()


def _look_up(path: str, names: Mapping[str, JsonObject]) -> Any:
    match = _PATH.fullmatch(path)
    if match is None:
        raise RewardFailed(f"{path[:80]!r} is not a path", RewardFailureKind.INVALID_VARIABLE)
    if path.startswith("sample.output_json") and names["sample"]["output_json"] is None:
        raise RewardFailed(
            "the sample is not JSON, but output_json is used", RewardFailureKind.SAMPLE_PARSE
        )
    value: Any = names[match[1]]
    for step in _STEP.finditer(match[2]):
        name, number = step[1], step[2] or step[1]
        if isinstance(value, dict) and name is not None and name in value:
            value = value[name]
        elif isinstance(value, list) and number.isdecimal() and int(number) < len(value):
            value = value[int(number)]
        else:
            raise RewardFailed(f"there is no {path[:80]}", RewardFailureKind.INVALID_VARIABLE)
    return value


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
