"""Training files made of the trajectories of a job. No worker runs these jobs."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause, LeftOut
from services.contracts.rollouts.trajectories import (
    CallOutcome,
    FinishReason,
    ToolCallRecord,
    Trajectory,
    Turn,
)
from services.rollouts.log.log import IndexedLog
from tests.support.rollouts import saying
from tests.unit.rollouts.agents.agents import CALL, TOOL, play_by, said, user

TOOLS = [TOOL]
ASKED = [{"role": "user", "content": "1+2?"}]


def sample(name: str, prompt: int, reward: float | None, *texts: str, **fields: Any) -> Trajectory:
    """A rollout whose turns but the last call a tool, which says 3."""
    call = ToolCallRecord(
        name="add", arguments={"a": 1, "b": 2}, outcome=CallOutcome.ANSWERED, shown="3"
    )
    written = [
        f'{text}\n<tool_call>\n{{"name": "add", "arguments": {{"a": 1, "b": 2}}}}\n</tool_call>'
        for text in texts[:-1]
    ]
    turns = [
        Turn(
            text=f"{text}<|im_end|>",
            token_start=0,
            token_count=0,
            finish_reason="stop",
            calls=[call] if number < len(written) else [],
        )
        for number, text in enumerate([*written, texts[-1]])
    ]
    return Trajectory(
        id=name,
        prompt_index=prompt,
        messages=[{"role": "user", "content": f"question {prompt}"}],
        tools=TOOLS,
        gold=["3"],
        extra={"source": "sums"},
        prompt_token_ids=[],
        turns=turns,
        finish_reason=fields.pop("finish_reason", FinishReason.ANSWERED),
        reward=reward,
        **fields,
    )


def logged(http: httpx.Client, home: Path, *made: Trajectory) -> str:
    """The path of a job that has these trajectories."""
    job = http.post("/v1/rollouts", json={"model": "base", "prompts": [{"question": "q"}]}).json()
    folder = home / "jobs" / job["id"]
    folder.mkdir(parents=True, exist_ok=True)
    with IndexedLog(folder) as log:
        for each in made:
            log.append(each)
    return f"/v1/rollouts/{job['id']}/trajectories/training_rows"


def rows(http: httpx.Client, made: JsonObject) -> list[Any]:
    content = http.get(f"/v1/files/{made['file']['id']}/content").text
    return [json.loads(line) for line in content.splitlines()]


def test_supervised_rows_are_conversations_with_calls_and_their_origin(
    http: httpx.Client, home: Path
) -> None:
    lost = LeftOut(source="add", cause=InfrastructureCause.TIMED_OUT, message="late")
    path = logged(
        http,
        home,
        sample("good", 0, 1.0, "I add.", "It is 3."),
        sample("bad", 0, 0.0, "It is 4."),
        sample("lost", 1, 1.0, "x", left_out=lost),
    )

    made = http.post(path, json={"layout": "supervised", "min_reward": 0.5}).json()

    [row] = rows(http, made)
    asked, called, replied, answered = row["messages"]
    assert asked == {"role": "user", "content": "question 0"}
    assert called["content"] == "I add."
    [call] = called["tool_calls"]
    assert call["function"] == {"name": "add", "arguments": {"a": 1, "b": 2}}
    assert replied == {"role": "tool", "tool_call_id": call["id"], "content": "3"}
    assert answered == {"role": "assistant", "content": "It is 3."}
    assert row["tools"] == TOOLS
    job = path.split("/")[3]
    assert row["provenance"] == {
        "job": job,
        "model": "base",
        "trajectory": "good",
        "prompt": 0,
        "sample": 0,
        "reward": 1.0,
        "finish_reason": "answered",
        "sequence": 0,
    }
    assert (made["rows"], made["trajectories"], made["has_more"]) == (1, 2, False)
    [refused] = made["left_out"]
    assert (refused["count"], refused["first"]) == (1, "lost")
    trained = http.post(
        "/v1/fine_tuning/jobs", json={"model": "base", "training_file": made["file"]["id"]}
    )
    assert trained.status_code == 200, trained.text


def cut_off(name: str, reward: float) -> Trajectory:
    made = sample(name, 0, reward, "It is 3. Let me ver", finish_reason=FinishReason.LENGTH)
    made.turns[-1].finish_reason = "length"
    return made


def test_what_the_model_did_not_finish_is_no_demonstration(http: httpx.Client, home: Path) -> None:
    spent = FinishReason.CALLS_SPENT
    path = logged(
        http,
        home,
        cut_off("cut", 1.0),
        sample("spent", 0, 1.0, "I add.", "I add again.", finish_reason=spent),
        sample("whole", 0, 1.0, "It is 3."),
    )

    made = http.post(path, json={"layout": "supervised"}).json()

    assert [row["provenance"]["trajectory"] for row in rows(http, made)] == ["whole"]
    assert {(each["reason"], each["first"]) for each in made["left_out"]} == {
        ("ended before the model had finished: length", "cut"),
        ("ended before the model had finished: calls_spent", "spent"),
    }


def test_a_turn_that_was_cut_off_is_on_neither_side_of_a_preference(
    http: httpx.Client, home: Path
) -> None:
    right, wrong = sample("right", 0, 1.0, "It is 3."), sample("wrong", 0, 0.0, "It is 4.")
    path = logged(http, home, cut_off("best", 2.0), right, wrong, cut_off("worst", -1.0))

    made = http.post(path, json={"layout": "preference"}).json()

    [row] = rows(http, made)
    assert row["preferred_output"] == [{"role": "assistant", "content": "It is 3."}]
    assert row["non_preferred_output"] == [{"role": "assistant", "content": "It is 4."}]
    assert [each["count"] for each in made["left_out"]] == [2]


def test_a_sequence_of_an_agent_that_was_cut_off_is_no_row(http: httpx.Client, home: Path) -> None:
    async def plays(session: JsonObject) -> JsonObject:
        await said(session, [user("one")], max_tokens=3)
        await said(session, [user("two")])
        return {"reward": 1.0}

    path = logged(http, home, play_by(plays, saying("a long answer<end>", "two<end>")))

    made = http.post(path, json={"layout": "supervised"}).json()

    [row] = rows(http, made)
    assert row["messages"][-1]["content"] == "two"
    assert [each["reason"] for each in made["left_out"]] == ["a turn of the model was cut off"]


def test_preferences_part_where_the_conversations_do(http: httpx.Client, home: Path) -> None:
    path = logged(
        http,
        home,
        sample("best", 0, 1.0, "I add.", "It is 3."),
        sample("between", 0, 0.5, "I add.", "3, maybe."),
        sample("worst", 0, 0.0, "I add.", "It is 4."),
        sample("even", 1, 1.0, "a"),
        sample("too", 1, 1.0, "b"),
    )

    made = http.post(path, json={"layout": "preference"}).json()

    [row] = rows(http, made)
    assert [message["role"] for message in row["input"]["messages"]] == [
        "user",
        "assistant",
        "tool",
    ]
    assert row["preferred_output"] == [{"role": "assistant", "content": "It is 3."}]
    assert row["non_preferred_output"] == [{"role": "assistant", "content": "It is 4."}]
    assert row["provenance"]["preferred"]["trajectory"] == "best"
    assert row["provenance"]["rejected"]["trajectory"] == "worst"
    [refused] = made["left_out"]
    assert refused["first"] == "prompt 1"


def test_reinforcement_rows_are_prompts_with_what_their_samples_earned(
    http: httpx.Client, home: Path
) -> None:
    path = logged(http, home, sample("a", 4, 1.0, "3"), sample("b", 4, 0.0, "4"))

    [row] = rows(http, http.post(path, json={"layout": "reinforcement"}).json())

    provenance = row.pop("provenance")
    assert row == {
        "messages": [{"role": "user", "content": "question 4"}],
        "gold": ["3"],
        "source": "sums",
    }
    assert (provenance["samples"], provenance["mean_reward"]) == (2, 0.5)


def test_every_conversation_of_an_agent_is_a_row_and_each_turn_is_learned_once(
    http: httpx.Client, home: Path
) -> None:
    async def plays(session: JsonObject) -> JsonObject:
        headers = {"authorization": f"Bearer {session['api_key']}"}
        async with httpx.AsyncClient(base_url=session["base_url"], headers=headers) as client:

            async def said(messages: list[Any], tools: list[Any]) -> Any:
                body = {"messages": messages, "tools": tools}
                answer = await client.post("/chat/completions", json=body)
                return answer.json()["choices"][0]["message"]

            called = await said(ASKED, TOOLS)
            reply = {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "3"}
            for how in ("3", "three"):
                await said([*ASKED, called, {**reply, "content": how}], TOOLS)
            await said([{"role": "user", "content": "a title"}], [])
        return {"reward": 1.0}

    played = play_by(plays, saying(f"I add.{CALL}", "Three.<end>", "It is 3.<end>", "Sums<end>"))
    path = logged(http, home, played.model_copy(update={"reward": 1.0}))

    made = rows(http, http.post(path, json={"layout": "supervised"}).json())

    assert [row["provenance"]["sequence"] for row in made] == [0, 1]
    own, other = (row["messages"] for row in made)
    assert [message["content"] for message in own] == ["1+2?", "I add.", "three", "It is 3."]
    assert [message["content"] for message in other] == ["1+2?", "I add.", "3", "Three."]
    assert ("weight" in own[1], other[1]["weight"], "weight" in other[3]) == (False, 0, False)
    [prompt] = rows(http, http.post(path, json={"layout": "reinforcement"}).json())
    assert prompt["messages"] == ASKED


@pytest.mark.parametrize("layout", ["supervised", "preference", "reinforcement"])
def test_a_job_without_rows_says_why(http: httpx.Client, home: Path, layout: str) -> None:
    failed = sample("failed", 0, None, "x", finish_reason=FinishReason.ENGINE_FAILED)
    path = logged(http, home, failed)
    files = len(http.get("/v1/files").json()["data"])

    answer = http.post(path, json={"layout": layout})

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "no_rows")
    assert "the infrastructure failed it (1)" in error["message"]
    assert len(http.get("/v1/files").json()["data"]) == files
