"""Rewards computed by user functions and user services."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.core.operator_environment import OperatorEnvironment
from tests.support.rewards import failure, score, trajectory
from tests.unit.inference.scripted_server import (
    Behavior,
    ScriptedServer,
    answer,
    break_off,
    hang,
    reset,
    running_server,
)

MODULE = "tests.unit.rewards.functions"
SAMPLE = trajectory("four", "\\boxed{4}<|im_end|>", extra={"level": 2})


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with running_server() as scripted:
        yield scripted


def called(name: str, **fields: Any) -> tuple[dict[str, Any], OperatorEnvironment]:
    function = f"{MODULE}.{name}"
    environment = OperatorEnvironment(allowed_callables=(function,))
    return {"type": "callable", "function": function, **fields}, environment


def http(server: ScriptedServer, **fields: Any) -> dict[str, Any]:
    return {"type": "http", "url": f"{server.url}/score", **fields}


def test_a_function_scores_the_record_of_a_rollout() -> None:
    reward, environment = called("length", arguments={"factor": 0.5})

    assert score(SAMPLE, reward, environment) == 0.5 * len("four\n\\boxed{4}")


def test_a_function_sees_neither_tokens_nor_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_SANDBOX_API_KEY", "secret")
    reward, environment = called("fields")

    assert score(SAMPLE, reward, environment) == 1.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raising", "no taste"),
        ("ending", "ended"),
        ("text", "'good'"),
        ("infinite", "inf"),
        ("huge", "finite"),
        ("absent", "absent"),
    ],
)
def test_a_function_without_a_valid_score_is_reported(name: str, message: str) -> None:
    assert message in failure(SAMPLE, *called(name))


def test_a_function_is_imported_from_the_operators_folder(tmp_path: Path) -> None:
    (tmp_path / "house_rules.py").write_text("def score(trajectory):\n    return 0.5\n")
    environment = OperatorEnvironment(
        allowed_callables=("house_rules.score",), callables_folder=tmp_path
    )

    assert score(SAMPLE, {"type": "callable", "function": "house_rules.score"}, environment) == 0.5


def test_a_hanging_function_is_killed() -> None:
    assert "0.5 s" in failure(SAMPLE, *called("hanging", timeout=0.5))


def test_a_service_scores_the_record_of_a_rollout(server: ScriptedServer) -> None:
    server.script = [answer(body={"score": 0.25, "why": "short"})]
    origin = server.url.removesuffix("/v1")

    given = score(SAMPLE, http(server), OperatorEnvironment(endpoint_keys={origin: "sk-1"}))

    headers, body = server.requests[0]
    assert given == 0.25
    assert headers["authorization"] == "Bearer sk-1"
    assert body["trajectory"]["response"] == "four\n\\boxed{4}"
    assert body["trajectory"]["extra"] == {"level": 2}
    assert "response_token_ids" not in body["trajectory"]


@pytest.mark.parametrize(
    "bad_response", [reset, break_off, answer(503), answer(429, {}, retry_after="0")]
)
def test_temporary_failures_of_a_service_are_retried(
    server: ScriptedServer, bad_response: Behavior
) -> None:
    server.script = [bad_response, answer(body={"score": 1})]

    assert score(SAMPLE, http(server)) == 1.0


@pytest.mark.parametrize(
    ("behavior", "message"),
    [
        (answer(400, {"error": "no such field"}), "no such field"),
        (answer(302, b"", location="http://169.254.169.254/"), "302"),
        (answer(body={"scores": 1}), "scores"),
        (answer(body={"score": "high"}), "high"),
        (answer(body=[1]), "not a score"),
        (answer(body=b"NaN"), "nan"),
        (answer(body=b"<html>"), "cannot be read"),
    ],
)
def test_a_response_without_a_score_is_reported(
    server: ScriptedServer, behavior: Behavior, message: str
) -> None:
    server.script = [behavior]

    assert message in failure(SAMPLE, http(server))
    assert len(server.requests) == 1


def test_a_hanging_service_times_out_after_its_attempts(server: ScriptedServer) -> None:
    server.script = [hang]
    moments = [lambda n=n: len(server.requests) == n for n in (1, 2)]

    message = failure(SAMPLE, http(server), OperatorEnvironment(attempts=2), *moments)

    assert "did not answer" in message
    assert len(server.requests) == 2
