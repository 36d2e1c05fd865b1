"""The unmodified ``openai`` package validates and runs graders."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from services.contracts.rewards.grading import GraderErrors
from tests.support.processes import running_gateway
from tests.unit.inference.scripted_server import (
    COMPLETION,
    ScriptedServer,
    answer,
    running_server,
)

EXACT: Any = {
    "type": "string_check",
    "name": "exact",
    "operation": "eq",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.reference_answer }}",
}
ALIKE: Any = {
    "type": "text_similarity",
    "name": "alike",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.reference_answer }}",
    "evaluation_metric": "rouge_l",
}
SCORE: Any = {
    "type": "score_model",
    "name": "taste",
    "model": "gpt-4o",
    "input": [
        {"role": "user", "content": "Grade: {{ sample.output_text }}"},
        {"role": "user", "content": {"type": "input_text", "text": "{{ item.reference_answer }}"}},
    ],
    "range": [0, 10],
    "sampling_params": {"temperature": 1, "top_p": 1, "seed": 42, "reasoning_effort": None},
}
PYTHON: Any = {
    "type": "python",
    "name": "program",
    "source": "def grade(sample, item):\n    return 1.0\n",
    "image_tag": "2025-05-08",
}
ITEM = {"reference_answer": "the cat sat"}


@pytest.fixture(scope="module")
def judge() -> Iterator[ScriptedServer]:
    with running_server() as server:
        message = {"role": "assistant", "content": '{"steps": [], "result": 7}'}
        server.script = [answer(body=COMPLETION | {"choices": [{"message": message}]})]
        yield server


@pytest.fixture(scope="module")
def graders(
    judge: ScriptedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["openai.resources.fine_tuning.alpha.Graders"]:
    folder = tmp_path_factory.mktemp("graders")
    settings = {
        "TEMPER_HOME": str(folder / "home"),
        "TEMPER_SANDBOX_URL": "http://127.0.0.1:9",
        "TEMPER_JUDGE_MODELS": f'{{"gpt-4o": {{"base_url": "{judge.url}", "model": "m"}}}}',
    }
    log: Path = folder / "gateway.log"
    with (
        running_gateway(settings, log) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client.fine_tuning.alpha.graders
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("grader", [EXACT, ALIKE, SCORE, PYTHON])
def test_graders_are_validated(graders: Any, grader: Any) -> None:
    answer = graders.validate(grader=grader)

    assert type(answer.grader).__name__.removesuffix("Grader") in {
        *("StringCheck", "TextSimilarity", "ScoreModel", "Python"),
    }
    assert answer.grader.name == grader["name"]


def test_an_invalid_grader_is_a_bad_request(graders: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        graders.validate(grader=EXACT | {"operation": "equals"})

    assert caught.value.param == "grader.operation"


def test_a_grader_scores_a_sample(graders: Any) -> None:
    answer = graders.run(grader=EXACT, model_sample="the cat sat", item=ITEM)

    assert answer.reward == 1.0
    assert answer.metadata.type == "string_check"
    assert not any(value for _, value in answer.metadata.errors)


def test_every_error_has_its_flag(graders: Any) -> None:
    answer = graders.run(grader=EXACT, model_sample="x")

    flags = answer.metadata.errors
    assert answer.reward == 0.0
    assert flags.invalid_variable_error
    # Every field that the package declares is present under its name.
    declared = {field.alias or name for name, field in type(flags).model_fields.items()}
    assert declared <= GraderErrors.model_fields.keys()


def test_a_score_model_grades_a_sample(graders: Any, judge: ScriptedServer) -> None:
    answer = graders.run(grader=SCORE, model_sample="a cat", item=ITEM)

    assert answer.reward == 7.0
    assert answer.metadata.token_usage == 9
    assert answer.api_model_grader_token_usage_per_model == {"m": 9}
    contents = [message["content"] for message in judge.requests[-1][1]["messages"]]
    assert contents[1:] == ["Grade: a cat", "the cat sat"]


def test_a_formula_combines_graders(graders: Any) -> None:
    multi: Any = {
        "type": "multi",
        "name": "both",
        "graders": {"exact": EXACT, "alike": ALIKE},
        "calculate_output": "exact + alike",
    }

    answer = graders.run(grader=multi, model_sample="the cat", item=ITEM)

    assert answer.sub_rewards == {"exact": 0.0, "alike": pytest.approx(0.8)}
    assert answer.reward == pytest.approx(0.8)


def test_a_python_grader_needs_a_sandbox(graders: Any) -> None:
    answer = graders.run(grader=PYTHON, model_sample="x", item=ITEM)

    assert answer.reward == 0.0
    assert answer.metadata.errors.python_grader_server_error
