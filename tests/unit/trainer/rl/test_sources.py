"""Sources of samples, and how samples become batches."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from services.contracts.base import JsonObject
from services.contracts.rollouts.agent_sessions import AgentRecord, AgentSequence, SequenceRole
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.contracts.training.online import OverlongPenalty
from services.core.process.outages import Outage
from services.inference.clients.retries import FailureKind, ServiceFailed
from services.inference.token_engine.base import EngineFailed, PromptLogProbs
from services.rollouts.chat.conversations import DemonstrationTokens
from services.trainer.rl.batch import TopK
from services.trainer.rl.groups import MAX_TEACHER_REQUESTS, BatchBuilder, Group
from services.trainer.rl.metrics import batch_metrics
from services.trainer.rl.prompts import SampledPrompt, read_row
from services.trainer.rl.sources import (
    DemonstrationSource,
    MixtureSource,
    RemoteTopK,
    TeacherSource,
    prompt_seed,
)
from tests.support.rollouts import END, CharacterChat, tokens


class DemonstratingChat(CharacterChat):
    def demonstration(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject],
        answers: Sequence[JsonObject],
    ) -> DemonstrationTokens:
        ids = [*tokens(answers[-1]["content"]), END]
        return DemonstrationTokens(ids, [1] * len(ids))


class Named:
    """A source that signs its samples."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def sample(self, draw: SampledPrompt, index: int) -> Trajectory:
        return trajectory(id=self._name)


def trajectory(**fields: Any) -> Trajectory:
    known: dict[str, Any] = {
        "id": "t",
        "prompt_index": 0,
        "messages": [],
        "prompt_token_ids": [7, 8],
        "response_token_ids": [1, 2, 3],
        "response_mask": [1, 0, 1],
        "log_probs": [-0.5, 0.0, -0.25],
        "policy_versions": [3, -1, 4],
        "finish_reason": FinishReason.ANSWERED,
        "reward": 1.0,
    }
    return Trajectory(**(known | fields))


def draw(number: int, **row: Any) -> SampledPrompt:
    return SampledPrompt(number, read_row({"question": "q", **row}, 0, "plain"))


def test_demonstrations_become_trajectories_without_sampler_logprobs() -> None:
    source = DemonstrationSource(DemonstratingChat(), lambda _: (), max_tokens=10)
    sample = asyncio.run(source.sample(draw(0, gold="yes"), 0))
    assert sample.response_token_ids == [*map(ord, "yes"), END]
    assert sample.policy_versions == [-1] * 4
    assert sample.finish_reason is FinishReason.ANSWERED


def test_long_demonstration_is_truncated() -> None:
    source = DemonstrationSource(DemonstratingChat(), lambda _: (), max_tokens=2)
    sample = asyncio.run(source.sample(draw(0, gold="yes"), 0))
    assert sample.response_token_ids == [*map(ord, "ye")]
    assert sample.finish_reason is FinishReason.LENGTH


def test_row_without_demonstration_is_a_failed_sample() -> None:
    sample = asyncio.run(
        DemonstrationSource(DemonstratingChat(), lambda _: (), max_tokens=2).sample(draw(0), 0)
    )
    assert sample.finish_reason.is_failure
    assert sample.error == "row 1: the row has no answer to learn from"


@pytest.mark.parametrize(("lmbda", "share"), [(0.0, 0.0), (0.3, 0.3), (1.0, 1.0)])
def test_student_is_chosen_with_probability_lmbda(lmbda: float, share: float) -> None:
    mixture = MixtureSource(Named("student"), Named("other"), lmbda, seed=1)

    async def answers() -> list[str]:
        return [(await mixture.sample(draw(number), 0)).id for number in range(1000)]

    first = asyncio.run(answers())
    assert first.count("student") / 1000 == pytest.approx(share, abs=0.05)
    assert asyncio.run(answers()) == first


def test_teacher_samples_carry_no_policy_logprobs() -> None:
    sample = asyncio.run(TeacherSource(Named("teacher")).sample(draw(0), 0))
    assert sample.log_probs == [0.0] * 3
    assert sample.policy_versions == [-1] * 3


def test_each_draw_has_its_own_seed() -> None:
    seeds = {prompt_seed(1, draw(number)) for number in range(1000)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert prompt_seed(2, draw(0)) not in seeds


class CountingTeacher:
    async def top(self, token_ids: Sequence[int]) -> TopK:
        places = len(token_ids) - 1
        return TopK(np.zeros((places, 2), np.int32), np.full((places, 2), -0.7, np.float32))


class FlakyEngine:
    """Answers the first time, and then is gone."""

    def __init__(self, answers: int) -> None:
        self._answers = answers

    async def prompt_log_probs(self, token_ids: Sequence[int], top_k: int = 1) -> PromptLogProbs:
        self._answers -= 1
        if self._answers < 0:
            raise EngineFailed("gone") from ServiceFailed("refused", FailureKind.UNSENT)
        size = (len(token_ids) - 1, top_k)
        floats = np.zeros(size, np.float32)
        return PromptLogProbs(floats[:, 0], np.zeros(size, np.int32), floats)


def test_a_teacher_that_goes_down_is_an_outage_and_one_that_never_answers_is_not() -> None:
    teacher = RemoteTopK(FlakyEngine(1), 2)
    asyncio.run(teacher.top([1, 2, 3]))
    with pytest.raises(Outage, match="the teacher is unavailable: gone"):
        asyncio.run(teacher.top([1, 2, 3]))
    with pytest.raises(EngineFailed):
        asyncio.run(RemoteTopK(FlakyEngine(0), 2).top([1, 2, 3]))


def group_of(*samples: Trajectory) -> Group:
    row = draw(5).row
    group = Group(number=5, prompt=row.prompt, size=len(samples), started=0, rewarded=True)
    group.samples = dict(enumerate(samples))
    return group


def test_trajectory_becomes_an_aligned_sequence() -> None:
    batch = asyncio.run(BatchBuilder(8, teacher=CountingTeacher()).of([group_of(trajectory())]))
    (sequence,) = batch.sequences
    assert sequence.token_ids.tolist() == [7, 8, 1, 2, 3]
    assert sequence.mask.tolist() == [False, False, True, False, True]
    assert sequence.sampler_log_probs.tolist() == [0.0, 0.0, -0.5, 0.0, -0.25]
    assert sequence.policy_versions.tolist() == [-1, -1, 3, -1, 4]
    assert (sequence.reward, sequence.group) == (1.0, 5)
    assert sequence.teacher is not None
    assert sequence.teacher.ids.shape == (4, 2)


def branch(role: SequenceRole, mask: list[int], version: int) -> AgentSequence:
    return AgentSequence(
        role=role,
        turns=1,
        prompt_token_ids=[9],
        response_token_ids=[4] * len(mask),
        response_mask=mask,
        log_probs=[-1.0 * each for each in mask],
        policy_versions=[version if each else -1 for each in mask],
    )


def test_every_sequence_of_an_agent_is_trained_on_with_the_reward_of_its_session() -> None:
    others = [
        branch(SequenceRole.AGENT, [1, 0, 1], version=2),
        branch(SequenceRole.AGENT, [0, 0], version=2),  # all its turns are in another sequence
        branch(SequenceRole.AUXILIARY, [1], version=1),
        branch(SequenceRole.DISCARDED, [1], version=1),
    ]
    session = trajectory(agent=AgentRecord(model_calls=5, other_sequences=others))
    group = group_of(trajectory(reward=0.0), session)
    batches = BatchBuilder(8)

    plain, own, other = asyncio.run(batches.of([group])).sequences

    assert [each.sample for each in (plain, own, other)] == [0, 1, 1]
    assert (own.reward, other.reward, other.group) == (1.0, 1.0, 5)
    assert other.token_ids.tolist() == [9, 4, 4, 4]
    assert other.mask.tolist() == [False, True, False, True]
    assert other.policy_versions.tolist() == [-1, 2, -1, 2]
    metrics = batch_metrics([group], 4, batches, None)
    assert (metrics["batch_samples"], metrics["staleness_max"]) == (2, 2)


def test_batch_holds_only_usable_samples() -> None:
    failed = trajectory(finish_reason=FinishReason.ENGINE_FAILED, error="gone")
    unrewarded = trajectory(reward=None, reward_error="no judge")
    silent = trajectory(response_token_ids=[], response_mask=[], log_probs=[], policy_versions=[])
    group = group_of(trajectory(), failed, unrewarded, silent)
    assert len(asyncio.run(BatchBuilder(8).of([group])).sequences) == 1
    assert group.failure == "gone"


def test_teacher_requests_are_bounded() -> None:
    class Counting:
        asked = 0
        most = 0

        async def top(self, token_ids: Sequence[int]) -> TopK:
            self.asked += 1
            self.most = max(self.most, self.asked)
            await asyncio.sleep(0)
            self.asked -= 1
            size = (len(token_ids) - 1, 1)
            return TopK(np.zeros(size, np.int32), np.zeros(size, np.float32))

    teacher, group = Counting(), group_of(*[trajectory() for _ in range(100)])
    batch = asyncio.run(BatchBuilder(8, teacher=teacher).of([group]))
    assert len(batch.sequences) == 100
    assert teacher.most == MAX_TEACHER_REQUESTS


def test_teacher_is_asked_about_every_sequence_of_a_session() -> None:
    class Certain:
        """Has no doubt that each token follows those before it."""

        async def top(self, token_ids: Sequence[int]) -> TopK:
            ids = np.array(token_ids[1:], np.int32)[:, None]
            return TopK(ids, np.zeros(ids.shape, np.float32))

    others = [branch(SequenceRole.AGENT, [1] * length, version=0) for length in (1, 9)]
    session = trajectory(agent=AgentRecord(model_calls=5, other_sequences=others))
    group = group_of(session, trajectory())

    batch = asyncio.run(BatchBuilder(8, teacher=Certain()).of([group]))

    assert len(batch.sequences) == 4
    for each in batch.sequences:
        assert each.teacher is not None
        assert each.teacher.ids[:, 0].tolist() == each.token_ids[1:].tolist()


def test_overlong_penalty_is_part_of_the_reward() -> None:
    batches = BatchBuilder(4, OverlongPenalty(buffer=2, factor=1.0))
    batch = asyncio.run(batches.of([group_of(trajectory())]))
    assert batch.sequences[0].reward == 0.5


@pytest.mark.parametrize("limit", ["length", "reply_too_long", "timed_out"])
def test_a_truncated_response_may_be_left_out_of_the_loss_with_its_reward_kept(limit: str) -> None:
    cut_off = trajectory(finish_reason=FinishReason(limit))
    batches = BatchBuilder(8, masks_truncated=True)

    batch = asyncio.run(batches.of([group_of(trajectory(), cut_off)]))

    assert [sequence.mask.sum() for sequence in batch.sequences] == [2, 0]
    assert [sequence.reward for sequence in batch.sequences] == [1.0, 1.0]
