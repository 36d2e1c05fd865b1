"""What the gateway refuses of a request before an engine sees it."""

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from services.api.responses.items import stored_input
from services.api.responses.request import CreateResponse
from services.api.serving.request_body import parse_request
from services.campaigns.scripts.proxy import ProxiedChat
from services.contracts.errors import InvalidRequest
from services.contracts.inference_body import RENAMED
from services.contracts.rollouts.multi_turn import RolloutSampling
from services.contracts.sampling import Sampling

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
        {"guided_json": None},
        {"stream": True, "stream_options": {"include_usage": False}},
        {"stream": None, "stream_options": None, "best_of": None},
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
        *(({name: n}, name) for name in ("n", "best_of") for n in (1.0, "1", True, [1])),
        *(({"stream": other}, "stream") for other in (1, 0, "true", "false")),
        *(
            ({"stream_options": {"include_usage": other}}, "stream_options.include_usage")
            for other in (1, "false")
        ),
        ({"stream_options": [True]}, "stream_options"),
    ],
)
def test_many_choices_renamed_fields_and_other_types_are_refused_by_name(
    fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(**fields)

    assert refused.value.param == param
    assert param in refused.value.message


@pytest.mark.parametrize("settings", [Sampling, RolloutSampling, ProxiedChat])
def test_what_makes_requests_of_its_own_fields_names_those_that_it_lacks(
    settings: type[BaseModel],
) -> None:
    fields = {"model": "m", "messages": [{"role": "user"}]} if settings is ProxiedChat else {}

    with pytest.raises(ValidationError, match="guided_regex"):
        settings.model_validate({**fields, "guided_regex": "a+"})


def test_a_name_with_half_a_surrogate_pair_can_be_looked_up() -> None:
    body = b'{"model": "m\\ud800", "messages": []}'
    parsed = asyncio.run(parse_request(body, MOST))

    assert parsed.model == "m\ufffd"
    assert parsed.body == body


_EXTRAS = ['"\\ud800"', "NaN", "-Infinity", "1e999", '{"\\udfff": [NaN]}']


@pytest.mark.parametrize("extra", _EXTRAS)
@pytest.mark.parametrize(
    "field",
    [
        '"instructions": "\\ud800"',
        '"input": [{"role": "user", "content": "x\\udc00", "extra": EXTRA}]',
        '"tools": [{"type": "function", "name": "f", "parameters": {"x": EXTRA}}]',
        '"metadata": {"a": "\\ud800"}',
        '"text": {"format": {"type": "json_schema", "name": "n", "schema": {"x": EXTRA}}}',
    ],
)
def test_what_a_response_keeps_of_its_request_can_be_stored(field: str, extra: str) -> None:
    given = json.loads(f'{{"model": "m\\ud800", {field.replace("EXTRA", extra)}}}')

    request = CreateResponse.model_validate(given)

    kept = [request.model, request.stored(), stored_input(request.input)]
    json.dumps(kept, allow_nan=False, ensure_ascii=False).encode()


def test_a_response_whose_request_nests_too_deeply_is_refused() -> None:
    deep = json.loads("[" * 400 + "]" * 400)
    for field in (
        {"input": [{"role": "user", "content": "x", "y": deep}]},
        {"tools": [{"x": deep}]},
    ):
        with pytest.raises(ValidationError, match="nested"):
            CreateResponse.model_validate({"model": "m", **field})
