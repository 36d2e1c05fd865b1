"""What the gateway refuses of a request before an engine sees it."""

import asyncio
import json
from typing import Any

import pytest

from services.api.serving.request_body import RENAMED, parse_request
from services.contracts.errors import InvalidRequest

MOST = 8


def parse(**fields: Any) -> str:
    body = json.dumps({"model": "m", **fields}).encode()
    return asyncio.run(parse_request(body, MOST)).model


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": MOST},
        {"n": None, "prompt": ["a"] * MOST},
        {"n": 2, "prompt": ["a"] * 4},
        {"n": MOST, "prompt": list(range(100))},  # the tokens of one prompt
        {"n": "many"},  # the engine refuses it
        {"guided_json": None},
    ],
)
def test_a_request_of_few_choices_passes(fields: dict[str, Any]) -> None:
    assert parse(**fields) == "m"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 10_000}, "n"),
        ({"n": MOST // 2 + 1, "prompt": ["a", "b"]}, "n"),
        ({"n": 5, "prompt": [[1, 2], [3]]}, "n"),
        ({"best_of": MOST + 1}, "best_of"),
        ({"prompt": ["a"] * (MOST + 1)}, "prompt"),
        *(({name: {}}, name) for name in RENAMED),
    ],
)
def test_many_choices_and_renamed_fields_are_refused_by_name(
    fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(**fields)

    assert refused.value.param == param
    assert param in refused.value.message
