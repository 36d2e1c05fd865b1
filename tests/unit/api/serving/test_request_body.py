"""What the gateway refuses of a request before an engine sees it."""

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

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


@pytest.mark.parametrize("settings", [Sampling, RolloutSampling, ProxiedChat])
def test_what_makes_requests_of_its_own_fields_names_those_that_it_lacks(
    settings: type[BaseModel],
) -> None:
    fields = {"model": "m", "messages": [{"role": "user"}]} if settings is ProxiedChat else {}

    with pytest.raises(ValidationError, match="guided_regex"):
        settings.model_validate({**fields, "guided_regex": "a+"})
