"""Language models as judges."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.contracts.models.registered import RemoteModel
from services.core.operator_environment import OperatorEnvironment
from services.rewards.interface import RewardFailed, RewardFailureKind
from services.rewards.judge import read_label, read_number
from services.rewards.verdicts import Verdicts
from tests.support.rewards import failure, score, trajectory
from tests.unit.inference.scripted_server import (
    COMPLETION,
    Behavior,
    ScriptedServer,
    answer,
    running_server,
)

SAMPLE = trajectory("It is four.", extra={"question": "2+2?", "rubric": "be brief"})
SCORE = {
    "type": "score_model",
    "name": "s",
    "input": [
        {"role": "system", "content": {"type": "input_text", "text": "{{ item.rubric }}"}},
        {"role": "user", "content": ["{{ item.question }} ", "{{ sample.output_text }}"]},
    ],
    "range": [0, 10],
    "sampling_params": {"max_completions_tokens": 50, "temperature": 0.5, "seed": 7},
}
LABEL = SCORE | {"type": "label_model", "labels": ["good", "bad"], "passing_labels": ["good"]}
del LABEL["range"]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with running_server() as scripted:
        yield scripted


def says(text: str | None) -> Behavior:
    message = {"role": "assistant", "content": text}
    return answer(body=COMPLETION | {"choices": [{"message": message}]})


def by_url(server: ScriptedServer) -> dict[str, str]:
    return {"base_url": server.url, "model": "judge-7b"}


def judge(server: ScriptedServer, **fields: Any) -> dict[str, Any]:
    prompt = "{{ item.question }} / {{ sample.response }} / {{ item.gold }}"
    return {"type": "judge", "model": by_url(server), "prompt": prompt, **fields}


def test_a_judge_receives_the_rendered_prompt(server: ScriptedServer) -> None:
    server.script = [says("Reasoning. Score: 0.75")]
    key = {server.url.removesuffix("/v1"): "sk-judge"}
    reward = judge(server, system_prompt="You grade.", max_tokens=9)

    assert score(SAMPLE, reward, OperatorEnvironment(endpoint_keys=key)) == 0.75

    headers, body = server.requests[0]
    assert headers["authorization"] == "Bearer sk-judge"
    assert body["model"] == "judge-7b"
    assert body["max_tokens"] == 9
    assert body["temperature"] == 0.0
    assert body["messages"] == [
        {"role": "system", "content": "You grade."},
        {"role": "user", "content": "2+2? / It is four. / 4"},
    ]


def test_a_range_can_be_normalized_to_0_and_1(server: ScriptedServer) -> None:
    server.script = [says("4")]

    assert score(SAMPLE, judge(server, range=[1, 5], normalize=True)) == 0.75
    assert score(SAMPLE, judge(server, range=[1, 5])) == 4.0


def test_a_judge_can_be_given_by_the_operators_name_for_it(server: ScriptedServer) -> None:
    server.script = [says("1")]
    known = {"gpt": RemoteModel.model_validate(by_url(server))}

    assert score(SAMPLE, judge(server, model="gpt"), OperatorEnvironment(judge_models=known)) == 1.0
    assert server.requests[0][1]["model"] == "judge-7b"


@pytest.mark.parametrize("text", ["no idea", "", None, "Score: 11", "Score: -1"])
def test_a_judge_without_a_score_in_range_is_reported(
    server: ScriptedServer, text: str | None
) -> None:
    server.script = [says(text)]

    assert "no score from 0 to 10" in failure(SAMPLE, judge(server, range=[0, 10]))


def test_an_unavailable_judge_is_reported(server: ScriptedServer) -> None:
    server.script = [answer(401, {"error": {"message": "bad key"}})]

    assert "bad key" in failure(SAMPLE, judge(server))


def test_a_score_model_is_asked_for_a_json_number(server: ScriptedServer) -> None:
    server.script = [says('{"steps": ["x"], "result": 7.5}')]

    assert score(SAMPLE, SCORE | {"model": by_url(server)}) == 7.5

    body = server.requests[0][1]
    assert [message["content"] for message in body["messages"][1:]] == [
        "be brief",
        "2+2? It is four.",
    ]
    assert (body["max_tokens"], body["temperature"], body["seed"]) == (50, 0.5, 7)
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["result"] == {"type": "number", "minimum": 0, "maximum": 10}


@pytest.mark.parametrize(
    ("text", "expected"), [('{"label": "good"}', 1.0), ('{"label": "bad"}', 0.0), (" good.", 1.0)]
)
def test_a_label_scores_one_if_it_passes(
    server: ScriptedServer, text: str, expected: float
) -> None:
    server.script = [says(text)]

    assert score(SAMPLE, LABEL | {"model": by_url(server)}) == expected
    schema = server.requests[0][1]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["label"]["enum"] == ["good", "bad"]


def test_an_unknown_label_is_an_error(server: ScriptedServer) -> None:
    server.script = [says('{"label": "so-so"}')]

    assert "none of the labels" in failure(SAMPLE, LABEL | {"model": by_url(server)})


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7.0),
        (" 7.5\n", 7.5),
        ("Score: 8/10", 8.0),
        ("**Score:** 8", 8.0),
        ("Score = 3, no: final score: 4", 4.0),
        ('{"score": 5}', 5.0),
        ('```json\n{"result": 6}\n```', 6.0),
        ('I think {"score": 5} fits', 5.0),
        ("score .5", 0.5),
    ],
)
def test_scores_are_parsed_from_typical_judge_replies(text: str, number: float) -> None:
    assert read_number(text, "result", 0, 10) == number


@pytest.mark.parametrize(
    "text", ["8 out of 10", "nan", "inf", '{"result": true}', '{"result": "8"}', "[8]", "1e999"]
)
def test_an_ambiguous_score_is_a_parse_error(text: str) -> None:
    with pytest.raises(RewardFailed) as caught:
        read_number(text, "result", 0, 10)

    assert caught.value.kind is RewardFailureKind.MODEL_PARSE


def test_a_label_may_be_quoted() -> None:
    assert read_label('"good"', ["good", "bad"]) == "good"


def pairwise(server: ScriptedServer, **fields: Any) -> dict[str, Any]:
    return {"type": "pairwise_judge", "model": by_url(server), **fields}


def label(value: str) -> Behavior:
    return says(f'{{"reason": "It is.", "label": "{value}"}}')


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (("first", "second"), 1.0),  # the answer is first, then second: better both times
        (("second", "first"), 0.0),
        (("equal", "equal"), 0.5),
        (("first", "first"), 0.5),  # a judge that favors a position
        (("first", "equal"), 0.75),
    ],
)
def test_a_comparison_is_made_in_both_orders(
    server: ScriptedServer, verdicts: tuple[str, str], expected: float
) -> None:
    server.script = [label(verdict) for verdict in verdicts]

    assert score(SAMPLE, pairwise(server, rubric="Be kind.")) == expected

    asked = [body["messages"] for _, body in server.requests]
    assert all("by this rubric: Be kind." in messages[0]["content"] for messages in asked)
    first, second = (messages[1]["content"] for messages in asked)
    assert "What is 2+2?" in first
    assert first.index("It is four.") < first.index("<second>\n4\n")
    assert second.index("<first>\n4\n") < second.index("It is four.")


def test_a_comparison_needs_a_gold_and_a_verdict(server: ScriptedServer) -> None:
    assert "no gold to compare with" in failure(trajectory("a", gold=()), pairwise(server))
    server.script = [says("the left one")]
    assert "none of the labels" in failure(SAMPLE, pairwise(server))


def test_the_same_question_at_temperature_0_is_asked_once(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.script = [says("Score: 0.75"), says("Score: 0.5"), says("Score: 0.25")]
    kept = OperatorEnvironment(verdicts=tmp_path / "verdicts.db")
    other = trajectory("It is five.", extra={"question": "2+2?"})

    assert score(SAMPLE, judge(server), kept) == 0.75
    assert score(SAMPLE, judge(server), kept) == 0.75
    assert score(other, judge(server), kept) == 0.5
    assert score(SAMPLE, judge(server, max_tokens=7), kept) == 0.25

    assert len(server.requests) == 3


def test_answers_that_vary_or_cannot_be_read_are_not_kept(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.script = [says("no idea"), says("Score: 0.75"), says("Score: 0"), says("Score: 1")]
    kept = OperatorEnvironment(verdicts=tmp_path / "verdicts.db", attempts=1)

    assert "gave no score" in failure(SAMPLE, judge(server), kept)
    assert score(SAMPLE, judge(server), kept) == 0.75
    assert score(SAMPLE, judge(server, temperature=0.5), kept) == 0.0
    assert score(SAMPLE, judge(server, temperature=0.5), kept) == 1.0


def test_a_damaged_file_of_verdicts_costs_no_grade(server: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / "verdicts.db").write_text("no database " * 1000)
    server.script = [says("Score: 0.75"), says("Score: 0.75")]
    kept = OperatorEnvironment(verdicts=tmp_path / "verdicts.db")

    assert [score(SAMPLE, judge(server), kept) for _ in range(2)] == [0.75, 0.75]


def test_the_oldest_verdicts_leave(tmp_path: Path) -> None:
    async def run() -> list[str | None]:
        with Verdicts(tmp_path / "verdicts.db", most=2) as verdicts:
            for number in range(3):
                await verdicts.keep("http://judge", {"seed": number}, f"answer {number}")
                await verdicts.keep("http://judge", {"seed": number}, "another answer")
            return [await verdicts.find("http://judge", {"seed": seed}) for seed in range(3)]

    assert asyncio.run(run()) == [None, "answer 1", "answer 2"]
