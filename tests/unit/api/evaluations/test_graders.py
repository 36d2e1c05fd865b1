"""Trying graders and rewards out over REST."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.openapi.models import Example
from pydantic import BaseModel

from services.api.examples import RUN_GRADER, VALIDATE_GRADER
from services.contracts.rewards.grading import RunGrader, ValidateGrader
from tests.unit.api.tool_upstream import running_api
from tests.unit.inference.scripted_server import (
    COMPLETION,
    ScriptedServer,
    answer,
    running_server,
)

ROUTE = "/v1/fine_tuning/alpha/graders"
CHECK = {
    "type": "string_check",
    "name": "exact",
    "operation": "eq",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.answer }}",
}
PYTHON = {"type": "python", "name": "p", "source": "def grade(sample, item): return 1"}
REMOTE = {
    "type": "score_model",
    "name": "s",
    "model": "judge",
    "input": [{"role": "user", "content": "{{ sample.output_text }}"}],
}


@pytest.fixture(scope="module")
def shared() -> Iterator[ScriptedServer]:
    """A scripted server that acts as judge, sandbox and reward service."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def url(shared: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    origin = shared.url.removesuffix("/v1")
    settings = {
        "sandbox_url": origin,
        "allowed_endpoints": [origin],
        "allowed_callables": ["tests.unit.rewards.functions.length"],
        "endpoint_keys": {origin: "sk-judge"},
        "judge_models": {"judge": {"base_url": shared.url, "model": "judge-7b"}},
    }
    with running_api(tmp_path_factory.mktemp("graders"), settings) as url:
        yield url


@pytest.fixture
def server(shared: ScriptedServer) -> ScriptedServer:
    shared.requests.clear()
    shared.script = [answer()]
    return shared


@pytest.fixture
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url + ROUTE, timeout=60) as client:
        yield client


def run(http: httpx.Client, grader: dict[str, Any], text: str, **item: Any) -> dict[str, Any]:
    body = {"grader": grader, "model_sample": text, "item": item}
    response = http.post("/run", json=body)
    assert response.status_code == 200, response.text
    return dict(response.json())


def errors(answer: dict[str, Any]) -> dict[str, Any]:
    """The errors that are set."""
    return {name: value for name, value in answer["metadata"]["errors"].items() if value}


def test_a_grader_scores_a_sample(http: httpx.Client) -> None:
    answer = run(http, CHECK, "Paris", answer="Paris")

    assert answer["reward"] == 1.0
    assert answer["metadata"]["name"] == "exact"
    assert answer["metadata"]["type"] == "string_check"
    assert answer["metadata"]["scores"] == {"exact": 1.0}
    assert answer["metadata"]["execution_time"] >= 0
    assert answer["sub_rewards"] == {}
    assert errors(answer) == {}


@pytest.mark.parametrize(
    ("grader", "text", "item", "expected"),
    [
        ({"type": "retool"}, "\\boxed{4}", {"gold": 4}, 1.0),
        ({"type": "retool", "equivalence": "math"}, "\\boxed{0.5}", {"answer": "1/2"}, 1.0),
        ({"type": "search_em"}, "<answer>x</answer>", {"gold": ["y", "X"]}, 1.0),
        ({"type": "boxed_integer"}, "\\boxed{073}", {"gold": 73}, 1.0),
        (
            {"type": "callable", "function": "tests.unit.rewards.functions.length"},
            "four",
            {"question": "?"},
            4.0,
        ),
    ],
)
def test_a_builtin_reward_scores_a_sample(
    http: httpx.Client, grader: dict[str, Any], text: str, item: dict[str, Any], expected: float
) -> None:
    answer = run(http, grader, text, **item)

    assert (answer["reward"], errors(answer)) == (expected, {})
    assert answer["metadata"]["name"] == grader["type"]


def test_a_multi_grader_reports_its_sub_rewards(http: httpx.Client) -> None:
    other = CHECK | {"name": "other", "operation": "ne"}
    multi = {
        "type": "multi",
        "name": "m",
        "graders": [CHECK, other],
        "calculate_output": "0.25 * exact + other",
    }

    answer = run(http, multi, "a", answer="a")

    assert answer["reward"] == 0.25
    assert answer["sub_rewards"] == {"exact": 1.0, "other": 0.0}
    assert answer["metadata"]["scores"] == {"exact": 1.0, "other": 0.0, "m": 0.25}


def test_a_judge_is_called_with_the_operators_key(
    http: httpx.Client, server: ScriptedServer
) -> None:
    message = {"role": "assistant", "content": '{"result": 0.5}'}
    server.script = [answer(body=COMPLETION | {"choices": [{"message": message}]})]

    judged = run(http, REMOTE, "four")

    assert judged["reward"] == 0.5
    assert judged["model_grader_token_usage_per_model"] == {"judge-7b": 9}
    assert judged["metadata"]["token_usage"] == 9
    assert judged["metadata"]["sampled_model_name"] == "judge-7b"
    assert server.requests[0][0]["authorization"] == "Bearer sk-judge"


@pytest.mark.parametrize(
    ("grader", "text", "flag"),
    [
        (CHECK | {"reference": "{{ item.absent }}"}, "a", "invalid_variable_error"),
        (CHECK | {"input": "{{ sample.output_json.a }}"}, "a", "sample_parse_error"),
        (REMOTE, "a", "model_grader_parse_error"),
        ({"type": "retool"}, "a", "other_error"),
    ],
)
def test_errors_are_flagged_as_in_the_openai_api(
    http: httpx.Client, server: ScriptedServer, grader: dict[str, Any], text: str, flag: str
) -> None:
    answer = run(http, grader, text)

    assert answer["reward"] == 0.0
    assert set(errors(answer)) == {flag, f"{flag}_details"}


def test_a_failing_judge_is_not_retried(http: httpx.Client, server: ScriptedServer) -> None:
    server.script = [answer(503, {"error": {"message": "overloaded"}})]

    judged = run(http, REMOTE, "a")

    assert "overloaded" in errors(judged)["model_grader_server_error_details"]
    assert len(server.requests) == 1


def test_program_errors_and_sandbox_errors_are_distinguished(
    http: httpx.Client, server: ScriptedServer
) -> None:
    result = {"status": "Finished", "return_code": 1, "stdout": "", "stderr": "ValueError: x"}
    server.script = [
        answer(body={"status": "Failed", "run_result": result}),
        answer(body={"status": "SandboxError", "message": "no room"}),
    ]

    first, second = (errors(run(http, PYTHON, "a")) for _ in range(2))

    assert first["python_grader_runtime_error_details"] == "ValueError: x"
    assert second["python_grader_server_error_type"] == "no room"


def test_validation_sends_no_requests(http: httpx.Client, server: ScriptedServer) -> None:
    graders: list[dict[str, Any]] = [
        *(CHECK, PYTHON, REMOTE, {"type": "retool", "equivalence": "math"}),
        {"type": "http", "url": f"{server.url}/score"},
        REMOTE | {"model": {"base_url": server.url, "model": "m"}},
    ]

    for grader in graders:
        response = http.post("/validate", json={"grader": grader})
        assert response.status_code == 200, response.text
        assert response.json()["grader"]["type"] == grader["type"]

    assert server.requests == []


@pytest.mark.parametrize("route", ["/validate", "/run"])
@pytest.mark.parametrize(
    ("grader", "status", "param"),
    [
        ({"type": "guess"}, 400, "grader"),
        (CHECK | {"operation": "eqq"}, 400, "grader.operation"),
        (CHECK | {"reference": "{{ env }}"}, 400, "grader.reference"),
        (PYTHON | {"source": "x ="}, 400, "grader.source"),
        (REMOTE | {"model": "gpt"}, 400, "grader.model"),
        ({"type": "http", "url": "http://169.254.169.254/"}, 403, "grader.url"),
        ({"type": "callable", "function": "os.getcwd"}, 403, "grader.function"),
    ],
)
def test_an_unusable_grader_is_rejected(
    http: httpx.Client, route: str, grader: dict[str, Any], status: int, param: str
) -> None:
    body = {"grader": grader} | ({"model_sample": "x"} if route == "/run" else {})

    response = http.post(route, json=body)

    assert response.status_code == status, response.text
    assert response.json()["error"]["param"] == param


def test_a_reward_model_is_rejected_outside_jobs(http: httpx.Client) -> None:
    grader = {"type": "reward_model", "model": "rm"}

    response = http.post("/run", json={"grader": grader, "model_sample": "x"})

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "grader.model"


@pytest.mark.parametrize("item", [{"gold": {}}, {"messages": []}, {"prompt": "a", "question": "b"}])
def test_builtin_rewards_reject_an_item_that_is_not_a_valid_row(
    http: httpx.Client, item: dict[str, Any]
) -> None:
    body = {"grader": {"type": "retool"}, "model_sample": "x", "item": item}

    response = http.post("/run", json=body)

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "item"


def test_openai_graders_accept_any_item(http: httpx.Client) -> None:
    grader = CHECK | {"reference": "{{ item.answer.text }}"}

    assert run(http, grader, "x", answer={"text": "x"}, messages=[])["reward"] == 1.0


HALF = "\\ud800"
"""Half of a surrogate pair, as JSON writes it."""


@pytest.mark.parametrize(
    ("grader", "sample", "item"),
    [
        (CHECK, HALF, "{}"),
        (CHECK, "x", f'{{"answer": "{HALF}"}}'),
        (CHECK, "x", f'{{"answer": {{"{HALF}": 1}}}}'),
        (CHECK, "x", '{"answer": NaN}'),
        (CHECK | {"reference": "{{ item.b }}"}, "x", f'{{"{HALF}": 1}}'),
        (REMOTE | {"input": [{"role": "user", "content": "{{ item.a }}"}]}, "x", HALF),
        ({"type": "retool"}, "x", f'{{"gold": "{HALF}"}}'),
        ({"type": "retool"}, "x", f'{{"gold": {{"{HALF}": 1}}}}'),
        ({"type": "code_tests", "field": "a"}, "x", f'{{"a": "{HALF}"}}'),
        ({"type": "retool", "equivalence": "math"}, "\\\\boxed{1}", f'{{"gold": "{HALF}"}}'),
    ],
)
def test_invalid_unicode_is_not_an_internal_error(
    http: httpx.Client, server: ScriptedServer, grader: dict[str, Any], sample: str, item: str
) -> None:
    item = item if item.startswith("{") else f'{{"a": "{item}"}}'
    body = f'{{"grader": {json.dumps(grader)}, "model_sample": "{sample}", "item": {item}}}'

    response = http.post("/run", content=body, headers={"Content-Type": "application/json"})

    assert response.status_code in {200, 400}, response.text


@pytest.mark.parametrize(
    ("body", "examples"), [(ValidateGrader, VALIDATE_GRADER), (RunGrader, RUN_GRADER)]
)
def test_openapi_grader_examples_are_valid(
    body: type[BaseModel], examples: dict[str, Example]
) -> None:
    for example in examples.values():
        body.model_validate(example["value"])
