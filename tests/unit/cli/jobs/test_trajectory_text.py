"""Trajectories rendered as text."""

import pytest
from hypothesis import given

from services.contracts.failures import InfrastructureCause, LeftOut
from services.contracts.rollouts.tool_runs import (
    HttpRun,
    Passage,
    ProgramRun,
    QueryHits,
    RequestFailure,
    SearchRun,
)
from services.contracts.rollouts.trajectories import (
    CallOutcome,
    FinishReason,
    MalformedCall,
    ToolCallRecord,
    Trajectory,
    Turn,
)
from services.contracts.sandbox.programs import CommandResult, CommandStatus, RunStatus
from temper.cli.jobs.trajectory_text import render
from tests.support.trajectories import endpoint_trajectory
from tests.unit.rollouts.log.examples import trajectories, trajectory


def with_call(call: ToolCallRecord, **fields: object) -> Trajectory:
    turn = Turn(
        text="I compute.\n<tool_call>...</tool_call><|im_end|>",
        token_start=0,
        token_count=3,
        inserted_count=2,
        finish_reason="stop",
        calls=[call],
    )
    answer = Turn(text="It is 408.", token_start=5, token_count=1, finish_reason="stop")
    return Trajectory.model_validate(
        {
            "id": "traj-0-1",
            "prompt_index": 0,
            "sample_index": 1,
            "messages": [{"role": "user", "content": "12*34?"}],
            "prompt_token_ids": [1],
            "response_token_ids": [1] * 6,
            "response_mask": [1, 1, 1, 0, 0, 1],
            "log_probs": [0.0] * 6,
            "policy_versions": [0] * 6,
            "turns": [turn, answer],
            "finish_reason": FinishReason.ANSWERED,
            **fields,
        }
    )


ANSWERED = ToolCallRecord(
    name="code_interpreter",
    arguments={"code": "x = 12*34\nprint(x)", "timeout": 5},
    outcome=CallOutcome.ANSWERED,
    reply="408\n" * 100,
    reply_characters=400,
    shown="408...(truncated)",
    attempts=1,
)


def test_a_conversation_is_rendered_in_order_with_code_on_separate_lines() -> None:
    text = render(with_call(ANSWERED, reward=0.8, reward_components={"em": 1.0}, gold=["408"]))
    wanted = [
        "reward 0.8 (em 1)",
        "12*34?",
        "I compute.",
        "call of code_interpreter: answered",
        "    x = 12*34",
        "    print(x)",
        "    5",
        "result, of 400 characters:",
        "408...(truncated)",
        "It is 408.",
        "end: answered",
        "gold: 408",
    ]
    places = [text.index(part) for part in wanted]
    assert places == sorted(places)
    assert "turns: 2; calls: 1;" in text


def test_the_run_or_search_of_a_call_is_summarized() -> None:
    result = CommandResult(
        status=CommandStatus.FINISHED, return_code=3, execution_time=0.25, peak_memory_mb=12.5
    )
    program = ProgramRun(language="python", status=RunStatus.FAILED, run_result=result)
    hits = QueryHits(query="Nile", found=2, passages=[Passage(id="w-7", score=0.875), Passage()])
    searched = SearchRun(topk=2, queries=[hits, QueryHits(query="Po", found=0, passages=[])])

    ran = render(with_call(ANSWERED.model_copy(update={"run": program})))
    found = render(with_call(ANSWERED.model_copy(update={"run": searched})))

    assert "run: Failed, return code 3, 0.25 s, 12.5 MiB\n" in ran
    assert "search: Nile: w-7 (0.875), without an id (no score)\nsearch: Po: nothing\n" in found


def test_the_failed_request_of_a_call_is_summarized() -> None:
    refused = RequestFailure(status=503, answer="full\nof work", seconds=0.25)
    silent = HttpRun(failure=RequestFailure(seconds=30))
    program = ProgramRun(language="python", failure=refused)

    ran = render(with_call(ANSWERED.model_copy(update={"run": program})))
    asked = render(with_call(ANSWERED.model_copy(update={"run": silent})))

    assert "request: HTTP status 503, 0.25 s\nanswer:\n    full\n    of work\n" in ran
    assert "request: no answer, 30.00 s\n" in asked


def test_masks_mark_sampled_and_inserted_lines() -> None:
    lines = render(with_call(ANSWERED), masks=True).splitlines()
    assert "1 | I compute." in lines
    assert "0 | 408...(truncated)" in lines
    assert "0 | 12*34?" in lines
    assert "1 | It is 408." in lines
    assert {line[:4] for line in lines} == {"1 | ", "0 | ", "  | "}


def test_a_failed_call_shows_its_error() -> None:
    failed = ToolCallRecord(
        name="search",
        arguments=None,
        outcome=CallOutcome.TIMED_OUT,
        error="no answer within 30 s",
        shown="Error: it took too long",
        attempts=3,
    )
    text = render(with_call(failed))
    assert "call of search: timed_out at attempt 3" in text
    assert "error: no answer within 30 s" in text
    assert "Error: it took too long" in text
    assert "calls: 1 (1 failed)" in text


def test_dropped_and_malformed_calls_and_failures_are_shown() -> None:
    shown = with_call(
        ToolCallRecord(name="search", arguments={}, outcome=CallOutcome.DROPPED),
        error="the engine is gone",
        reward_error="the sandbox did not answer",
        left_out=LeftOut(
            source="reward:code", cause=InfrastructureCause.TIMED_OUT, message="no answer"
        ),
    )
    shown.turns[0].malformed = [MalformedCall(text="{", reason="not JSON")]
    text = render(shown)
    assert "call of search: not run" in text
    assert "malformed call: not JSON" in text
    assert "error: the engine is gone" in text
    assert "left out: reward:code: timed_out (plays: 1)" in text
    assert "no reward: the sandbox did not answer" in text


def test_messages_with_tool_calls_are_shown() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [{"name": "f"}]}
    shown = trajectory().model_copy(update={"messages": [message]})
    assert '[{"name": "f"}]' in render(shown)


def test_control_characters_in_a_trajectory_are_escaped() -> None:
    hostile = "a\x1b[2J\x9b0m\u202eb\u2028\r\x07c\td é 漢\u3000字"
    text = render(trajectory(text=hostile))
    assert r"a\x1b[2J\x9b0m\u202eb\u2028\r\x07c" in text
    assert "\td é 漢\u3000字" in text


@given(trajectories())
def test_any_trajectory_can_be_rendered(shown: Trajectory) -> None:
    text = render(shown, masks=True)
    assert not set(text) & {*map(chr, range(32)), "\x7f", "\x9b", "\u202e"} - {"\n", "\t"}
    assert all(line[:4] in {"1 | ", "0 | ", "  | "} for line in text.split("\n")[:-1])


@pytest.mark.parametrize("counted", [True, False])
def test_estimated_numbers_of_tokens_are_called_estimates(counted: bool) -> None:
    shown = render(endpoint_trajectory(counted=counted))
    assert "12 sampled, 90 inserted (estimated in part)" in shown
    assert "estimated" not in render(trajectory())
