"""What each setting of a conversation does."""

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.rollouts.trajectories import CallOutcome, FinishReason
from services.rollouts.settings import validate_multi_turn
from tests.support.rollouts import (
    CharacterChat,
    FunctionToolbox,
    ScriptedEngine,
    hermes,
    question,
    tokens,
)
from tests.support.virtual_time import run_in_virtual_time
from tests.unit.rollouts.loop.conversation import ECHO, play, rollouts

TWO_CALLS = hermes("echo", text="a") + hermes("echo", text="b") + "<end>"
CALL = hermes("echo", text="a") + "<end>"


def refused(sampling: RolloutSampling | None = None, **settings: object) -> str | None:
    with pytest.raises(InvalidRequest) as raised:
        validate_multi_turn(
            MultiTurn.model_validate({"multi_turn_enable": True, **settings}),
            sampling or RolloutSampling(max_tokens=100),
        )
    return raised.value.param


def test_multi_turn_requires_the_async_engine() -> None:
    assert refused(async_engine=False) == "multi_turn.async_engine"


def test_the_response_limit_may_not_be_below_the_turn_limit() -> None:
    assert refused(max_total_response_length=99) == "multi_turn.max_total_response_length"
    allowed = MultiTurn(multi_turn_enable=True, max_total_response_length=100)
    validate_multi_turn(allowed, RolloutSampling(max_tokens=100))


def test_an_unknown_parser_is_refused() -> None:
    assert refused(tool_parser_format="smoke-signals") == "multi_turn.tool_parser_format"


def test_single_turn_rollouts_skip_multi_turn_validation() -> None:
    settings = MultiTurn(async_engine=False, max_total_response_length=1)
    validate_multi_turn(settings, RolloutSampling(max_tokens=100))


def test_conflicting_settings_are_refused_before_any_rollout() -> None:
    with pytest.raises(InvalidRequest):
        rollouts(ScriptedEngine(lambda _: ""), async_engine=False)


def test_single_turn_rollouts_neither_show_nor_call_tools() -> None:
    tools = FunctionToolbox(ECHO)
    trajectory = play(CALL, tools=tools, multi_turn_enable=False)
    assert trajectory.finish_reason is FinishReason.ANSWERED
    assert trajectory.tools == []
    assert "offer:" not in CharacterChat().text(trajectory.prompt_token_ids)
    assert (tools.called, trajectory.turns[0].calls) == ([], [])


@pytest.mark.parametrize(
    ("count", "limit", "ran", "turns"),
    [("calls", 3, 3, 3), ("turns", 3, 6, 4), ("calls", 0, 0, 1), ("turns", 0, 0, 1)],
)
def test_max_tool_calls_counts_calls_or_turns_that_call(
    count: str, limit: int, ran: int, turns: int
) -> None:
    trajectory = play(
        *[TWO_CALLS] * 10, max_tool_calls=limit, count_tool_calls=count, max_parallel_calls=2
    )
    assert trajectory.finish_reason is FinishReason.CALLS_SPENT
    assert (trajectory.tool_calls, len(trajectory.turns)) == (ran, turns)
    outcomes = [call.outcome for call in trajectory.turns[-1].calls]
    assert outcomes == [CallOutcome.DROPPED] * 2


def test_a_final_answer_after_the_last_allowed_call_counts() -> None:
    trajectory = play(CALL, "so it is a<end>", max_tool_calls=1)
    assert trajectory.finish_reason is FinishReason.ANSWERED


def test_calls_beyond_max_parallel_calls_are_dropped_and_recorded() -> None:
    tools = FunctionToolbox(ECHO)
    trajectory = play(TWO_CALLS, "ok<end>", tools=tools)
    first = trajectory.turns[0].calls
    assert [call.outcome for call in first] == [CallOutcome.ANSWERED, CallOutcome.DROPPED]
    assert first[1].arguments == {"text": "b"}
    assert tools.called == [("echo", {"text": "a"})]
    assert "tool:a<end>assistant:" in CharacterChat().text(trajectory.response_token_ids)


def test_a_turn_gets_the_remaining_response_budget() -> None:
    engine = ScriptedEngine(lambda context: "x" * 500 if "tool:" in context else CALL)
    player = rollouts(
        engine, max_total_response_length=200, sampling=RolloutSampling(max_tokens=200)
    )
    trajectory = run_in_virtual_time(player.play(question()))
    used = trajectory.turns[1].token_start
    assert [sampling.max_tokens for _, sampling in engine.asked] == [200, 200 - used]
    assert trajectory.finish_reason is FinishReason.LENGTH
    assert len(trajectory.response_token_ids) == 200


def test_a_single_turn_is_limited_to_max_tokens() -> None:
    trajectory = play(
        "x" * 50,
        sampling=RolloutSampling(max_tokens=30),
        multi_turn_enable=False,
        max_total_response_length=None,
    )
    assert trajectory.finish_reason is FinishReason.LENGTH
    assert len(trajectory.response_token_ids) == 30


def test_a_complete_call_in_a_truncated_turn_is_run() -> None:
    cut = hermes("echo", text="a") + "x" * 900
    trajectory = play(cut, "ok<end>", sampling=RolloutSampling(max_tokens=100))
    assert trajectory.finish_reason is FinishReason.ANSWERED
    assert trajectory.tool_calls == 1
    start = trajectory.turns[0].token_count
    assert trajectory.response_token_ids[start] == tokens("<end>")[0]
    assert trajectory.response_mask[start] == 0


def test_a_call_that_uses_up_the_budget_is_not_run() -> None:
    tools = FunctionToolbox(ECHO)
    spent = len(tokens(CALL))
    trajectory = play(
        CALL,
        tools=tools,
        max_total_response_length=spent,
        sampling=RolloutSampling(max_tokens=spent),
    )
    assert trajectory.finish_reason is FinishReason.LENGTH
    assert tools.called == []
    assert [call.outcome for call in trajectory.turns[0].calls] == [CallOutcome.DROPPED]


@pytest.mark.parametrize("room", [0, 1])
def test_a_reply_that_would_reach_the_limit_is_discarded(room: int) -> None:
    needed = len(tokens(f"{CALL}tool:a<end>assistant:"))
    trajectory = play(
        CALL,
        "y",
        max_total_response_length=needed + room,
        sampling=RolloutSampling(max_tokens=len(tokens(CALL))),
    )
    (call,) = trajectory.turns[0].calls
    if room:
        assert trajectory.finish_reason is FinishReason.LENGTH
        assert len(trajectory.response_token_ids) == needed + 1
    else:
        assert trajectory.finish_reason is FinishReason.REPLY_TOO_LONG
        assert trajectory.response_token_ids == tokens(CALL)
        assert (call.reply, call.shown) == ("a", None)


def test_the_response_limit_defaults_to_max_tokens() -> None:
    trajectory = play(
        CALL, "y" * 100, max_total_response_length=None, sampling=RolloutSampling(max_tokens=90)
    )
    assert len(trajectory.response_token_ids) == 90


@pytest.mark.parametrize(
    ("side", "shown"),
    [
        ("left", "abcde...(truncated)"),
        ("right", "(truncated)...fghij"),
        ("middle", "ab...(truncated)...ij"),
    ],
)
def test_a_long_reply_is_truncated_for_the_model_and_kept_in_the_record(
    side: str, shown: str
) -> None:
    trajectory = play(
        hermes("echo", text="abcdefghij") + "<end>",
        "ok<end>",
        max_tool_response_length=5,
        tool_response_truncate_side=side,
    )
    (call,) = trajectory.turns[0].calls
    assert (call.shown, call.reply, call.reply_characters) == (shown, "abcdefghij", 10)
    assert f"tool:{shown}<end>" in CharacterChat().text(trajectory.response_token_ids)


def test_the_record_of_a_huge_reply_keeps_its_head_and_length() -> None:
    async def enormous() -> str:
        return "x" * 5_000_000

    trajectory = play(hermes("big") + "<end>", "ok<end>", tools=FunctionToolbox({"big": enormous}))
    (call,) = trajectory.turns[0].calls
    assert call.reply_characters == 5_000_000
    assert len(call.reply or "") == 65_536
    assert len(call.shown or "") < 300


def test_the_engine_context_length_bounds_the_response() -> None:
    prompt = len(CharacterChat().prompt([{"role": "user", "content": "q"}], []))
    trajectory = play("x" * 500, context_length=prompt + 40, multi_turn_enable=False)
    assert trajectory.finish_reason is FinishReason.LENGTH
    assert len(trajectory.response_token_ids) == 40


def test_sampling_settings_reach_the_engine() -> None:
    engine = ScriptedEngine(lambda _: "a<end>")
    sampling = RolloutSampling(
        max_tokens=9, temperature=0.7, top_p=0.9, top_k=5, min_p=0.1, stop=["###"]
    )
    player = rollouts(engine, sampling=sampling)
    run_in_virtual_time(player.play(question()))
    (_, asked), *_ = engine.asked
    assert (asked.temperature, asked.top_p, asked.top_k, asked.min_p, asked.stop) == (
        0.7,
        0.9,
        5,
        0.1,
        ("###",),
    )
    assert asked.stop_token_ids == CharacterChat.stop_token_ids


def seeds(seed: int | None, *, index: int = 0, sample_index: int = 0) -> list[int | None]:
    engine = ScriptedEngine(lambda context: "ok<end>" if "tool:" in context else CALL)
    run_in_virtual_time(
        rollouts(engine).play(question(index=index), seed=seed, sample_index=sample_index)
    )
    return [sampling.seed for _, sampling in engine.asked]


def test_seeds_differ_by_turn_sample_and_prompt() -> None:
    all_seeds = seeds(1) + seeds(1, sample_index=1) + seeds(1, index=1) + seeds(2)
    assert len(set(all_seeds)) == 8
    assert seeds(1) == all_seeds[:2]
    assert seeds(None) == [None, None]
