"""Invariants of every conversation, for any model output and settings."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from services.contracts.rollouts.multi_turn import CountedCalls, RolloutSampling
from services.contracts.rollouts.trajectories import CallOutcome, FinishReason, Trajectory
from services.rollouts.recording import NOT_SAMPLED
from tests.support.rollouts import (
    CharacterChat,
    FunctionToolbox,
    ScriptedEngine,
    ToolBroke,
    echo,
    hermes,
    question,
    tokens,
)
from tests.support.virtual_time import run_in_virtual_time
from tests.unit.rollouts.loop.conversation import rollouts


@dataclass(frozen=True)
class Case:
    """A model that says ``turns`` and then stops, and the settings of the rollout."""

    turns: list[str]
    max_tokens: int
    total: int
    max_tool_calls: int | None
    count: CountedCalls
    parallel: int


async def broken(text: str, seconds: float) -> str:
    raise ToolBroke("broken")


CALLS = st.builds(
    hermes,
    st.sampled_from(["echo", "broken", "unknown"]),
    text=st.text("ab\n{}", max_size=30),
    seconds=st.integers(0, 3),
)
PIECES = st.one_of(st.text("xyz", max_size=20), CALLS, st.just("<tool_call>{</tool_call>"))
TURNS = st.builds(
    lambda pieces, end: "".join(pieces) + end,
    st.lists(PIECES, max_size=4),
    st.sampled_from(["<end>", "<end>", "<end>", ""]),
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    max_tokens = draw(st.integers(1, 300))
    return Case(
        turns=draw(st.lists(TURNS, max_size=5)),
        max_tokens=max_tokens,
        total=draw(st.integers(max_tokens, 900)),
        max_tool_calls=draw(st.none() | st.integers(0, 6)),
        count=draw(st.sampled_from(CountedCalls)),
        parallel=draw(st.integers(1, 4)),
    )


def played(case: Case) -> tuple[Trajectory, ScriptedEngine]:
    left = iter([*case.turns, *["<end>"]])
    engine = ScriptedEngine(lambda _: next(left))
    player = rollouts(
        engine,
        FunctionToolbox({"echo": echo, "broken": broken}),
        sampling=RolloutSampling(max_tokens=case.max_tokens),
        max_total_response_length=case.total,
        max_tool_calls=case.max_tool_calls,
        count_tool_calls=case.count,
        max_parallel_calls=case.parallel,
    )
    return run_in_virtual_time(player.play(question())), engine


@given(cases())
def test_tokens_match_the_turns_and_replies_of_the_record(case: Case) -> None:
    trajectory, engine = played(case)
    response = trajectory.response_token_ids
    place = 0
    for turn, scripted in zip(trajectory.turns, [*case.turns, "<end>"], strict=False):
        assert turn.token_start == place
        written = response[place : place + turn.token_count]
        assert written == tokens(scripted)[: turn.token_count]
        assert turn.text == CharacterChat().text(written)
        place += turn.token_count
        inserted = response[place : place + turn.inserted_count]
        shown = [call.shown for call in turn.calls if call.shown is not None]
        assert inserted == (CharacterChat().replies(written, shown) if shown else [])
        place += turn.inserted_count
    assert place == len(response)
    text, prompt = CharacterChat().text, trajectory.prompt_token_ids
    assert [asked for asked, _ in engine.asked] == [
        text(prompt + response[: turn.token_start]) for turn in trajectory.turns
    ]


@given(cases())
def test_masks_cover_exactly_the_sampled_tokens(case: Case) -> None:
    trajectory, _ = played(case)
    mask = [
        bit
        for turn in trajectory.turns
        for bit in [1] * turn.token_count + [0] * turn.inserted_count
    ]
    assert trajectory.response_mask == mask
    assert [version != NOT_SAMPLED for version in trajectory.policy_versions] == [
        bit == 1 for bit in mask
    ]
    assert [log_prob < 0 for log_prob in trajectory.log_probs] == [bit == 1 for bit in mask]


@given(cases())
def test_no_limit_is_exceeded(case: Case) -> None:
    trajectory, engine = played(case)
    assert len(trajectory.response_token_ids) <= case.total
    for turn, (_, sampling) in zip(trajectory.turns, engine.asked, strict=True):
        assert sampling.max_tokens == case.total - turn.token_start
        assert turn.calls_run <= case.parallel
    if case.max_tool_calls is not None:
        ran = [turn.calls_run for turn in trajectory.turns]
        counted = ran if case.count is CountedCalls.CALLS else map(bool, ran)
        assert sum(counted) <= case.max_tool_calls


@given(cases())
def test_finish_reason_follows_from_the_last_turn(case: Case) -> None:
    trajectory, _ = played(case)
    last = trajectory.turns[-1]
    assert last.inserted_count == 0
    match trajectory.finish_reason:
        case FinishReason.ANSWERED:
            assert last.text.endswith("<end>")
            assert not last.calls
        case FinishReason.LENGTH:
            assert len(trajectory.response_token_ids) == case.total or not last.calls
        case FinishReason.CALLS_SPENT:
            assert last.calls
            assert {call.outcome for call in last.calls} == {CallOutcome.DROPPED}
        case FinishReason.REPLY_TOO_LONG:
            assert last.calls_run
        case other:
            raise AssertionError(other)
