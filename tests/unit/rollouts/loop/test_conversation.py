"""How a conversation continues and ends."""

import asyncio
from collections.abc import Sequence

from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.rollouts.trajectories import CallOutcome, FinishReason
from services.inference.token_engine.base import SampledTokens
from services.rollouts.loop import Rollouts
from services.rollouts.models.tokens import TokenModel
from tests.support.rollouts import (
    CharacterChat,
    FunctionToolbox,
    ScriptedEngine,
    echo,
    hermes,
    question,
    saying,
    tokens,
)
from tests.support.virtual_time import run_in_virtual_time
from tests.unit.rollouts.loop.conversation import ECHO, play, rollouts

CALL = hermes("echo", text="four") + "<end>"


def test_a_turn_without_a_call_is_the_answer() -> None:
    trajectory = play("42<end>")
    assert trajectory.finish_reason is FinishReason.ANSWERED
    assert [turn.text for turn in trajectory.turns] == ["42<end>"]
    assert trajectory.prompt_token_ids == CharacterChat().prompt(
        [{"role": "user", "content": "q"}], FunctionToolbox(ECHO).schemas
    )
    assert trajectory.response_token_ids == tokens("42<end>")
    assert trajectory.response_mask == [1, 1, 1]


def test_the_model_reads_the_reply_and_continues() -> None:
    trajectory = play(CALL, "it is four<end>")
    assert trajectory.finish_reason is FinishReason.ANSWERED
    assert trajectory.response_token_ids == tokens(f"{CALL}tool:four<end>assistant:it is four<end>")
    first, second = trajectory.turns
    (call,) = first.calls
    assert (call.name, call.arguments, call.outcome) == (
        "echo",
        {"text": "four"},
        CallOutcome.ANSWERED,
    )
    assert (call.reply, call.reply_characters, call.shown) == ("four", 4, "four")
    assert second.calls == []


def test_the_engine_continues_from_the_recorded_tokens() -> None:
    engine = ScriptedEngine(lambda context: "done<end>" if "tool:four" in context else CALL)
    trajectory = run_in_virtual_time(rollouts(engine).play(question()))
    prompt, response = trajectory.prompt_token_ids, trajectory.response_token_ids
    second = trajectory.turns[1].token_start
    text = CharacterChat().text
    assert [context for context, _ in engine.asked] == [
        text(prompt),
        text(prompt + response[:second]),
    ]


def test_masks_log_probs_and_versions_distinguish_sampled_from_inserted_tokens() -> None:
    engine = ScriptedEngine(lambda context: "done<end>" if "tool:four" in context else CALL)

    async def reply(text: str) -> str:
        engine.policy_version = 7
        return text

    tools = FunctionToolbox({"echo": reply})
    trajectory = run_in_virtual_time(rollouts(engine, tools).play(question()))
    written, inserted, answer = len(tokens(CALL)), len("tool:four.assistant:"), len("done.")
    assert trajectory.response_mask == [1] * written + [0] * inserted + [1] * answer
    assert trajectory.policy_versions == [0] * written + [-1] * inserted + [7] * answer
    assert trajectory.log_probs == [
        -1.0 / (1 + token) if sampled else 0.0
        for token, sampled in zip(
            trajectory.response_token_ids, trajectory.response_mask, strict=True
        )
    ]
    assert [(t.token_start, t.token_count, t.inserted_count) for t in trajectory.turns] == [
        (0, written, inserted),
        (written + inserted, answer, 0),
    ]


def test_a_turn_may_span_two_policy_versions() -> None:
    class Synced(ScriptedEngine):
        async def generate(self, token_ids, sampling):  # type: ignore[no-untyped-def]  # as in its base class
            return SampledTokens((65, 66, 0), (-0.1, -0.2, -0.3), (3, 4, 4), "stop")

    trajectory = run_in_virtual_time(rollouts(Synced(lambda _: "")).play(question()))
    assert trajectory.policy_versions == [3, 4, 4]


def test_a_malformed_call_is_recorded_and_valid_calls_run() -> None:
    bad = '<tool_call>\n{"name": "echo", "arguments": {"text": \n</tool_call>'
    trajectory = play(f"{bad}{hermes('echo', text='x')}<end>", "ok<end>")
    first = trajectory.turns[0]
    assert [call.shown for call in first.calls] == ["x"]
    assert len(first.malformed) == 1
    assert first.malformed[0].reason


def test_a_turn_with_only_malformed_calls_ends_the_conversation() -> None:
    trajectory = play("<tool_call>\nnothing\n</tool_call><end>")
    assert trajectory.finish_reason is FinishReason.ANSWERED
    assert len(trajectory.turns[0].malformed) == 1


def test_parallel_calls_run_concurrently_and_replies_keep_their_order() -> None:
    slow, quick = hermes("echo", text="slow", seconds=5), hermes("echo", text="quick", seconds=3)
    trajectory = play(f"{slow}{quick}<end>", "ok<end>", max_parallel_calls=2)
    assert [call.seconds for call in trajectory.turns[0].calls] == [5, 3]
    assert trajectory.tool_seconds == 5
    assert "tool:slow<end>tool:quick<end>assistant:ok" in CharacterChat().text(
        trajectory.response_token_ids
    )


def test_model_time_and_tool_time_are_recorded_separately() -> None:
    engine = ScriptedEngine(
        lambda context: "ok<end>" if "tool:" in context else hermes("echo", seconds=4) + "<end>",
        seconds=2,
    )
    trajectory = run_in_virtual_time(rollouts(engine).play(question()))
    assert (trajectory.model_seconds, trajectory.tool_seconds, trajectory.seconds) == (4, 4, 8)
    assert [turn.started for turn in trajectory.turns] == [0, 6]
    assert trajectory.turns[0].calls[0].started == 2


def test_the_record_identifies_prompt_sample_and_trajectory() -> None:
    engine = ScriptedEngine(lambda _: "a<end>")
    trajectory = run_in_virtual_time(
        rollouts(engine).play(
            question("what?", index=7, level=3), sample_index=2, trajectory_id="traj-7-2"
        )
    )
    assert trajectory.id == "traj-7-2"
    assert (trajectory.prompt_index, trajectory.sample_index) == (7, 2)
    assert trajectory.messages == [{"role": "user", "content": "what?"}]
    assert trajectory.gold == ["right"]
    assert trajectory.extra == {"level": 3}
    assert [tool["function"]["name"] for tool in trajectory.tools] == ["echo"]
    assert engine.asked[0][1].session == "traj-7-2"


def test_concurrent_conversations_do_not_block_each_other() -> None:
    async def both() -> float:
        def script(context: str) -> str:
            if "tool:" in context:
                return "ok<end>"
            return hermes("echo", seconds=600 if "user:slow" in context else 1) + "<end>"

        player = rollouts(ScriptedEngine(script), FunctionToolbox({"echo": echo}))
        slow = asyncio.create_task(player.play(question("slow")))
        quick = await player.play(question("quick"))
        assert not slow.done()
        await slow
        return quick.seconds

    assert run_in_virtual_time(both()) == 1


def test_the_template_receives_the_names_of_replying_tools() -> None:
    named: list[Sequence[str]] = []

    class Overheard(CharacterChat):
        def replies(
            self, turn: Sequence[int], contents: Sequence[str], names: Sequence[str] = ()
        ) -> list[int]:
            named.append(names)
            return super().replies(turn, contents)

    settings = MultiTurn(multi_turn_enable=True, max_parallel_calls=2)
    said = saying(hermes("echo") + hermes("unknown") + "<end>", "ok<end>")
    model = TokenModel(said, Overheard(), settings, RolloutSampling())
    player = Rollouts(model, FunctionToolbox(ECHO), settings)
    run_in_virtual_time(player.play(question()))
    assert named == [["echo", "unknown"]]
