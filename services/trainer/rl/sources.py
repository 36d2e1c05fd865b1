"""Sources of samples: the policy, a teacher, or the data."""

import hashlib
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, JobFailed
from services.contracts.origins import origin_of
from services.contracts.rollouts.sources import source_of
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.contracts.training.online import DistillationMethod, OnlineSettings
from services.core.artifacts import ModelSource
from services.core.operator_environment import OperatorEnvironment
from services.core.process.outages import Outage
from services.inference.causes import cause_of
from services.inference.token_engine import CompletionsTokenEngine, VllmTokenEngine
from services.inference.token_engine.base import EngineFailed, PromptLogProbs, TokenEngine
from services.inference.vllm.launch import Routes
from services.inference.vllm.server import VllmServer
from services.models.tokenizer_ids.id_map import map_ids
from services.models.tokenizer_ids.words import check_told_words, spread_words
from services.rewards.scorer import Scorer, open_scorer
from services.rollouts.activity import Activity, Phase
from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.open_rollouts import RolloutPlayer, RolloutSettings, open_rollouts
from services.rollouts.outages import OutageWatch
from services.rollouts.prompts import Prompt
from services.rollouts.tools import Toolbox
from services.trainer.rl.batch import TopK
from services.trainer.rl.groups import TopKTeacher, TrajectorySource
from services.trainer.rl.mapped_engine import MappedEngine
from services.trainer.rl.policy_server import PolicyEngine
from services.trainer.rl.policy_server.placement import Devices, engine_options
from services.trainer.rl.prompts import SampledPrompt
from services.trainer.rl.spec import TEACHER as TEACHER_FIELD
from services.trainer.rl.spec import Online, OnlineSpec, RemoteTeacher, response_budget, rewards_of

TEACHER = "teacher"
POLICY_NAME = "policy"
"""The name of the model that an agent reads."""


def trajectory_id(draw: SampledPrompt, index: int) -> str:
    """A sample's trajectory id, unique within a job."""
    return f"traj-{draw.number}-{index}"


def prompt_seed(seed: int, draw: SampledPrompt) -> int:
    """A 31-bit seed for the samples of a draw, different in every epoch."""
    digest = hashlib.sha256(f"{seed}:{draw.number}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


class RolloutSource:
    """Rolls out prompts and, given a scorer, scores the result."""

    def __init__(
        self,
        rollouts: RolloutPlayer,
        scorer: Scorer | None,
        seed: int,
        activity: Activity | None = None,
    ) -> None:
        self._rollouts = rollouts
        self._scorer = scorer
        self._seed = seed
        self._activity = activity or Activity()

    async def sample(self, draw: SampledPrompt, index: int) -> Trajectory:
        """One scored rollout."""
        trajectory = await self._rollouts.play(
            draw.prompt,
            sample_index=index,
            seed=prompt_seed(self._seed, draw),
            trajectory_id=trajectory_id(draw, index),
        )
        if self._scorer is None:
            return trajectory
        with self._activity.during(Phase.REWARD):
            return await self._scorer.score(trajectory)


class WatchedSource:
    """Tells the watch which samples are left out."""

    def __init__(self, source: TrajectorySource, outages: OutageWatch) -> None:
        self._source = source
        self._outages = outages

    async def sample(self, draw: SampledPrompt, index: int) -> Trajectory:
        """A sample of the source."""
        window = self._outages.begin()
        trajectory = await self._source.sample(draw, index)
        self._outages.observe(trajectory, window)
        return trajectory


class DemonstrationSource:
    """Renders each row's own answer, at most ``max_tokens`` tokens, as a trajectory."""

    def __init__(
        self,
        chat: ChatTokens,
        offered: Callable[[Prompt], Sequence[JsonObject]],
        max_tokens: int,
    ) -> None:
        self._chat = chat
        self._offered = offered
        self._max_tokens = max_tokens

    async def sample(self, draw: SampledPrompt, index: int) -> Trajectory:
        """The answer of the row; a failed sample if it has none or cannot be rendered."""
        prompt = draw.prompt
        tools = self._offered(prompt)
        common = {
            "id": trajectory_id(draw, index),
            "prompt_index": prompt.index,
            "sample_index": index,
            "messages": list(prompt.messages),
            "tools": list(tools),
            "gold": list(prompt.gold),
            "extra": prompt.extra,
            "created_at": time.time(),
        }
        try:
            if not draw.row.answers:
                raise InvalidRequest("the row has no answer to learn from")
            asked = self._chat.prompt(prompt.messages, tools)
            shown = self._chat.demonstration(prompt.messages, tools, draw.row.answers)
        except InvalidRequest as error:
            return Trajectory(
                prompt_token_ids=[],
                finish_reason=FinishReason.PROMPT_REFUSED,
                error=f"row {prompt.index + 1}: {error.message}",
                **common,
            )
        fits = len(shown.token_ids) <= self._max_tokens
        ids = shown.token_ids[: self._max_tokens]
        return Trajectory(
            prompt_token_ids=asked,
            response_token_ids=ids,
            response_mask=shown.mask[: self._max_tokens],
            log_probs=[0.0] * len(ids),
            policy_versions=[-1] * len(ids),
            finish_reason=FinishReason.ANSWERED if fits else FinishReason.LENGTH,
            **common,
        )


class TeacherSource:
    """Rolls out prompts with a teacher's engine; its log-probabilities are not the policy's."""

    def __init__(self, rollouts: TrajectorySource) -> None:
        self._rollouts = rollouts

    async def sample(self, draw: SampledPrompt, index: int) -> Trajectory:
        """One rollout of the teacher; its tokens carry no policy version."""
        trajectory = await self._rollouts.sample(draw, index)
        length = len(trajectory.response_token_ids)
        return trajectory.model_copy(
            update={"log_probs": [0.0] * length, "policy_versions": [-1] * length}
        )


class LogProbEngine(Protocol):
    """An engine that scores given tokens."""

    async def prompt_log_probs(self, token_ids: Sequence[int], top_k: int = 1) -> PromptLogProbs:
        """Log-probabilities of ``token_ids`` and of the most probable tokens at each position;
        raises `EngineFailed`."""
        ...


class RemoteTopK:
    """The ``top_k`` most probable tokens of a remote server."""

    def __init__(self, engine: LogProbEngine, top_k: int) -> None:
        self._engine = engine
        self._top_k = top_k
        self._has_answered = False

    async def top(self, token_ids: Sequence[int]) -> TopK:
        """Score a whole sequence; raises `EngineFailed`, and `Outage` for a server that has
        answered before and is unavailable now."""
        try:
            given = await self._engine.prompt_log_probs(token_ids, self._top_k)
        except EngineFailed as error:
            if self._has_answered and cause_of(error) is not None:
                raise Outage(f"the teacher is unavailable: {error.message}") from error
            raise
        self._has_answered = True
        return TopK(given.top_ids, given.top_log_probs)


class MixtureSource:
    """Samples from the student with probability ``lmbda``, otherwise from ``others`` (GKD, Agarwal
    et al. 2024, arXiv:2306.13649); the choice is determined by the draw."""

    def __init__(
        self, student: TrajectorySource, others: TrajectorySource, lmbda: float, seed: int
    ) -> None:
        self._student = student
        self._others = others
        self._lmbda = lmbda
        self._seed = seed

    async def sample(self, draw: SampledPrompt, index: int) -> Trajectory:
        """Sample from the source chosen for this draw."""
        chance = random.Random(f"{self._seed}:{draw.number}:source").random()  # noqa: S311 - a draw, not a secret
        chosen = self._student if chance < self._lmbda else self._others
        return await chosen.sample(draw, index)


@dataclass(frozen=True)
class Sources:
    """The source of samples, and the remote teacher that scores their tokens, if any."""

    samples: TrajectorySource
    teacher: TopKTeacher | None = None


@dataclass(frozen=True)
class RolloutContext:
    """What rollouts on any engine need."""

    spec: OnlineSpec
    online: Online
    chat: ChatTokens
    toolbox: Toolbox
    job_dir: Path
    devices: Devices
    activity: Activity = field(default_factory=Activity)

    @property
    def settings(self) -> OnlineSettings:
        """The method's settings."""
        return self.online.hyperparameters

    def offered(self, prompt: Prompt) -> Sequence[JsonObject]:
        """The schemas of the tools offered to the model for a prompt."""
        if not self.settings.multi_turn.multi_turn_enable:
            return ()
        return self.toolbox.offered(source_of(prompt.extra))

    def prompt_length(self, prompt: Prompt) -> int:
        """Tokens of a prompt, including tool schemas; raises `InvalidRequest` if the chat template
        does."""
        return len(self.chat.prompt(prompt.messages, self.offered(prompt)))

    def player(
        self,
        engine: TokenEngine,
        environment: OperatorEnvironment,
        context_length: int | None = None,
    ) -> AbstractAsyncContextManager[RolloutPlayer]:
        """Rollouts with the job's settings, tools or agent; ``context_length`` is the engine's."""
        settings = self.settings
        playing = RolloutSettings(
            settings.multi_turn,
            settings.sampling,
            self.toolbox,
            settings.agent,
            POLICY_NAME,
            settings.max_concurrency,
            self.activity,
        )
        return open_rollouts(
            playing,
            engine,
            self.chat,
            environment,
            stop_token_ids=self.spec.stop_token_ids,
            context_length=context_length,
        )


@asynccontextmanager
async def open_sources(
    context: RolloutContext, policy: PolicyEngine, rewards: OperatorEnvironment
) -> AsyncIterator[Sources]:
    """The sources of a method, for the duration of the block. Raises `TemperError` if one fails to
    start."""
    online, seed = context.online, context.spec.seed
    async with AsyncExitStack() as stack:
        rollouts = await stack.enter_async_context(
            context.player(policy, rewards, policy.context_length)
        )
        if not isinstance(online, DistillationMethod):
            scorer = await stack.enter_async_context(open_scorer(rewards_of(online), rewards))
            yield Sources(RolloutSource(rollouts, scorer, seed, context.activity))
            return
        settings = online.hyperparameters
        remote = await _remote_teacher(context.spec, rewards, stack)
        student = RolloutSource(rollouts, None, seed)
        others: TrajectorySource = DemonstrationSource(
            context.chat, context.offered, response_budget(settings)
        )
        if settings.seq_kd and settings.lmbda < 1.0:
            engine: TokenEngine = remote or await _served_teacher(context, stack)
            teaching = await stack.enter_async_context(context.player(engine, rewards))
            others = TeacherSource(RolloutSource(teaching, None, seed))
        teacher = context.spec.teacher
        top = (
            # vLLM crashes if asked for more tokens than the vocabulary has.
            RemoteTopK(remote, min(teacher.top_k, context.chat.vocabulary))
            if remote is not None and isinstance(teacher, RemoteTeacher)
            else None
        )
        yield Sources(MixtureSource(student, others, settings.lmbda, seed), top)


async def check_distant_words(
    student: Path, teacher: RemoteTeacher, environment: OperatorEnvironment
) -> None:
    """Raise `InvalidRequest` for a remote teacher to which tokens mean other words, or whose server
    does not tell, and ``JobFailed`` for one that does not answer."""
    words = spread_words(student)
    async with _engine_of(teacher, environment) as engine:
        try:
            told = await engine.token_texts(list(words))
        except EngineFailed as error:
            message = f"the teacher's vocabulary cannot be compared: {error.message}"
            raise JobFailed(message, code=error.code) from error
    check_told_words(words, told, TEACHER_FIELD)


def _engine_of(teacher: RemoteTeacher, environment: OperatorEnvironment) -> CompletionsTokenEngine:
    key = environment.key_of(origin_of(teacher.base_url))
    return CompletionsTokenEngine(str(teacher.base_url), key, teacher.model)


async def _remote_teacher(
    spec: OnlineSpec, rewards: OperatorEnvironment, stack: AsyncExitStack
) -> CompletionsTokenEngine | None:
    if not isinstance(spec.teacher, RemoteTeacher):
        return None
    return await stack.enter_async_context(_engine_of(spec.teacher, rewards))


async def _served_teacher(context: RolloutContext, stack: AsyncExitStack) -> TokenEngine:
    """A local teacher's engine, next to the policy's, which takes the policy's ids."""
    spec = context.spec
    assert isinstance(spec.teacher, Path)  # noqa: S101 - there is one of the two
    folder = context.job_dir / TEACHER
    folder.mkdir(exist_ok=True)
    server = await stack.enter_async_context(
        VllmServer(
            spec.vllm.python,
            ModelSource(path=spec.teacher, trusted=spec.teacher in spec.trusted),
            TEACHER,
            [],
            folder,
            engine_options(context.online, spec, context.devices),
            routes=Routes(tokens=True),
            devices=context.devices.engines[0] if context.devices.engines else None,
        )
    )
    engine = await stack.enter_async_context(
        VllmTokenEngine(server.base_url, server.api_key, TEACHER, policy_version=-1)
    )
    ids = map_ids(spec.tokenizer_folder, spec.teacher, TEACHER_FIELD)
    return engine if ids.is_identity else MappedEngine(engine, ids)
