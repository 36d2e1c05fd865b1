"""Language models as judges."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.models.registered import RemoteModel
from services.contracts.rollouts.trajectories import Trajectory
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


def says(text: str | None, reason: str = "stop") -> Behavior:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": reason}
    return answer(body=COMPLETION | {"choices": [choice]})


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
    assert (body["max_tokens"], body["temperature"]) == (50, 0.5)
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["result"] == {"type": "number", "minimum": 0, "maximum": 10}


def test_verdicts_on_other_answers_are_sampled_with_other_seeds(server: ScriptedServer) -> None:
    def seed_of(sample: Trajectory, **sampling: Any) -> int:
        server.script = [says('{"steps": [], "result": 1}')]
        fixed: dict[str, Any] = SCORE["sampling_params"]  # type: ignore[assignment]  # of many
        params = {**fixed, **sampling}
        score(sample, SCORE | {"model": by_url(server), "sampling_params": params})
        seed: int = server.requests[-1][1]["seed"]
        return seed

    other = trajectory("It is five.", extra={"question": "2+2?", "rubric": "be brief"})
    drawn = [seed_of(each) for each in (SAMPLE, other, SAMPLE)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert all(0 <= seed < 2**31 for seed in drawn)
    assert [seed_of(each, temperature=0) for each in (SAMPLE, other)] == [7, 7], "are kept"


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


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_answer_that_was_cut_off_gives_no_grade(
    server: ScriptedServer, tmp_path: Path, reason: str
) -> None:
    kept = OperatorEnvironment(verdicts=tmp_path / "verdicts.db", attempts=1)
    model = {"model": by_url(server)}
    for grader, text in (
        (judge(server), "Score: 0.5, if"),
        (SCORE | model | {"sampling_params": {"temperature": 0}}, '{"result": 7}'),
        (LABEL | model | {"sampling_params": {"temperature": 0}}, "good"),
        (pairwise(server), '{"label": "first"}'),
    ):
        server.script = [says(text, reason), says(text, "stop"), says(text, "stop")]
        assert f"was cut off ({reason})" in failure(SAMPLE, grader, kept)
        score(SAMPLE, grader, kept)  # what was cut off is not kept


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
        ('{"score": "5"}', 5.0),
        ('{"Score": 3, "max_score": 10}', 3.0),
        ('{"grade": {"score": 3}}', 3.0),
        ('{"reason": "full score: 10 is too much", "score": 3}', 3.0),
        ('Here:\n```json\n{"steps": ["a first score: 2"], "result": 9}\n```\nThat is all.', 9.0),
        ('{"steps": ["by \\alpha, score: 2"], "result": 9}', 9.0),
        ('<think>A first score: 2 of 10.</think>{"steps": [], "result": 9}', 9.0),
        ("A first score: 2.</think>Score: 9", 9.0),
        ('Score: 8\n{"reason": "a score: 2 is too little"}', 8.0),
        ("It is right.\n\n**Score (1-10):** 8", 8.0),
        ("Score (0\u201310): 7", 7.0),
        ("Score [0, 10]: 7", 7.0),
        ("Score (out of 10): 7", 7.0),
        ("Overall score (on a 1-10 scale): 8", 8.0),
        ("Score on a scale from 0 to 10: 8", 8.0),
        ("Score: 8\n(Maximum score: 10)", 8.0),
        ("Highest possible score: 10. Score: 8", 8.0),
        ("max_score = 10\nfinal_score = 8", 8.0),
        ("Score: 7\nConfidence score: 0.9", 7.0),
        ("Overall score: 6\nStyle:\nScore: 9", 6.0),
        ("Accuracy score: 9", 9.0),
        ("Score:\n**8/10**", 8.0),
        ("| Score | 8 |", 8.0),
        ('{"reasoning": "good", "final_score": 7}', 7.0),
        ('{"overallScore": 8, "style_score": 2}', 8.0),
        ('{"relevance_score": 8, "max_score": 10, "reason": "x"}', 8.0),
        ('The call {"name": "f", "arguments": {"a": 1} lacks a brace.\nScore: 2', 2.0),
        ('{"a": <b>} is malformed.\n{"score": 3} it is', 3.0),
        ("Score:\n7 - good answer", 7.0),
        ("Score:\n7. The answer is good", 7.0),
        ("Clarity score: 9\nOverall: 7", 7.0),
        ("Clarity score: 9\nOverall: 7\nScore: 6", 6.0),
    ],
)
def test_scores_are_parsed_from_typical_judge_replies(text: str, number: float) -> None:
    assert read_number(text, "result", 0, 10) == number


@pytest.mark.parametrize(
    "text",
    [
        *("8 out of 10", "nan", "inf", '{"result": true}', '{"result": "8"}', "[8]", "1e999"),
        '{"steps": ["Correctness score: 2 of 10, and then',
        'So a score: 2. {"steps": [',
        '{"steps": [{"score": 2}], "result": ',
        '{"steps": ["score: 2"], "grade": 9}',
        '{"rating": 3, "max_score": 10}',
        "<think>A score: 2, or",
        "Maximum score: 10",
        "Score: 1-10",
        "Score: 4/5",
        "Accuracy score: 9. Style score: 2.",
        "A sub-score: 9, another sub-score: 2.",
        "A score: 1 means useless, a score: 5 means partly right, and a score: 10",
        "Score 1: useless. Score 5: right.",
        "## Score\n\n1. It is right.",
        "Score:\n1. It is right.\n2. It is brief.",
        "Score: 7,5",
        "Score: 70%",
        '{"clarity_score": 9, "style_score": 2}',
        '{"reason": "a\nScore: 2',
        'So a score: 2.\n```json\n{"steps": ["x"\n```\nThat is all.',
        'A first {"score": 2}, then {"score": 9\nas I said.',
    ],
)
def test_an_ambiguous_score_is_a_parse_error(text: str) -> None:
    with pytest.raises(RewardFailed) as caught:
        read_number(text, "result", 0, 10)

    assert caught.value.kind is RewardFailureKind.MODEL_PARSE


def test_a_percentage_is_read_on_a_scale_up_to_1_or_100() -> None:
    assert read_number("Score: 1%", "score", 0, 1) == 0.01
    assert read_number("Score: 85 %", "score", 0, 100) == 85.0
    assert read_number("Score: 0.85", "score", 0, 1) == 0.85


TENTHS = st.integers(0, 100).map(lambda tenths: tenths / 10)
SCALES = st.sampled_from(
    ["", " (0-10)", " (0 to 10)", " [0, 10]", " (out of 10)", " out of 10", " (max. 10)"]
)
DECOYS = st.sampled_from(
    [
        "",
        "Maximum score: 10.\n",
        "<think>A score: 1, or a final score: 2?</think>",
        "The possible score: 0 to 10.\n",
        "Style score: 3\n",
        "Score 1: useless. Score 10: right.\n",
    ]
)


@given(TENTHS, SCALES, DECOYS, st.sampled_from(["Score", "**Final score**", "Overall score"]))
def test_a_score_is_read_whatever_stands_around_it(
    number: float, scale: str, decoy: str, word: str
) -> None:
    assert read_number(f"{decoy}{word}{scale}: {number}", "result", 0, 10) == number
    stated = f'{decoy}{{"steps": ["score: 1"], "result": {number}}}'
    assert read_number(stated, "result", 0, 10) == number


@given(st.text(alphabet='score:{}"[](),0123456789.-/\n to', max_size=60) | st.text(max_size=60))
def test_any_answer_of_a_judge_is_read_or_refused(answer: str) -> None:
    with suppress(RewardFailed):
        assert 0 <= read_number(answer, "score", 0, 10) <= 10


@given(st.text(max_size=30), st.integers(0, 10), st.data())
def test_a_cut_off_object_gives_no_score(reason: str, number: int, data: st.DataObject) -> None:
    whole = json.dumps({"steps": [f"score: 1. {reason}", {"score": 2}], "result": number})
    cut = whole[: data.draw(st.integers(2, whole.rindex(":")))]
    with pytest.raises(RewardFailed):
        read_number(cut, "result", 0, 10)


@pytest.mark.parametrize("piece", ["score ", "(score", "{", '{"a":', '{"', "score: 1-2 "])
def test_a_long_answer_of_a_judge_is_read_in_linear_time(piece: str) -> None:
    with pytest.raises(RewardFailed):
        read_number(piece * 30_000, "score", 0, 10)


@pytest.mark.parametrize(
    "text",
    [
        *("good", '"good"', "**good**", " good.\n", '{"label": "good"}'),
        "<think>bad?</think>good",
        'It is.\n```json\n{"label": "good"}\n```\nThat is my label.',
        'Perhaps {"label": "bad"}. No: {"label": "good"}',
        '{"reason": "by \\alpha", "label": "good"}',
    ],
)
def test_labels_are_parsed_from_typical_judge_replies(text: str) -> None:
    assert read_label(text, ["good", "bad"]) == "good"


@pytest.mark.parametrize("text", ["", "so-so", "good or bad", '{"label": "goo', '{"label": 1}'])
def test_an_ambiguous_label_is_a_parse_error(text: str) -> None:
    with pytest.raises(RewardFailed):
        read_label(text, ["good", "bad"])


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


def test_what_an_earlier_reading_kept_is_asked_again(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = [says("Score: 0.75"), says("Score: 0.5")]
    kept = OperatorEnvironment(verdicts=tmp_path / "verdicts.db")
    with monkeypatch.context() as earlier:
        earlier.setattr("services.rewards.verdicts.READING", 1)
        assert score(SAMPLE, judge(server), kept) == 0.75

    assert score(SAMPLE, judge(server), kept) == 0.5


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
