"""Opens the sources that a method learns from."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.online import DistillationMethod, OnlineSettings
from services.contracts.origins import origin_of
from services.core.artifacts import ModelSource
from services.inference.token_engine import CompletionsTokenEngine, VllmTokenEngine
from services.inference.token_engine.interface import TokenEngine
from services.inference.vllm.routes import Routes
from services.inference.vllm.server import VllmServer
from services.rewards import RewardEnvironment, open_scorer
from services.rollouts.chat_tokens import ChatTokens
from services.rollouts.loop import Rollouts
from services.rollouts.prompts import Prompt
from services.rollouts.tools import Toolbox
from services.trainer.rl.batches import TopTokens
from services.trainer.rl.engine import PolicyEngine
from services.trainer.rl.engine.devices import Devices
from services.trainer.rl.engine_opening import engine_options
from services.trainer.rl.method import Online, response_budget, rewards_of
from services.trainer.rl.sources.data import DataSource
from services.trainer.rl.sources.mixture import Mixture
from services.trainer.rl.sources.rollouts import RolloutSource
from services.trainer.rl.sources.source import Source
from services.trainer.rl.sources.teacher import RemoteTopTokens, TeacherSource
from services.trainer.rl.spec import OnlineSpec, RemoteTeacher

TEACHER = "teacher"


@dataclass(frozen=True)
class Sources:
    """Who answers, and a teacher elsewhere that says how probable the tokens are."""

    samples: Source
    teacher: TopTokens | None = None


@dataclass(frozen=True)
class Playing:
    """What rollouts of any engine are played with."""

    spec: OnlineSpec
    online: Online
    chat: ChatTokens
    toolbox: Toolbox
    job_dir: Path
    devices: Devices

    @property
    def settings(self) -> OnlineSettings:
        """The method's settings."""
        return self.online.hyperparameters

    @property
    def schemas(self) -> Sequence[JsonObject]:
        """The tools that the model reads of."""
        return self.toolbox.schemas if self.settings.multi_turn.multi_turn_enable else ()

    def prompt_length(self, prompt: Prompt) -> int:
        """Tokens of a prompt, with the tools; raises `InvalidRequest` where the template does."""
        return len(self.chat.prompt(prompt.messages, self.schemas))

    def rollouts(self, engine: TokenEngine, context_length: int | None = None) -> Rollouts:
        """Rollouts with the job's tools and settings; ``context_length`` is the engine's."""
        return Rollouts(
            engine,
            self.chat,
            self.toolbox,
            self.settings.multi_turn,
            self.settings.sampling,
            stop_token_ids=self.spec.stop_token_ids,
            context_length=context_length,
        )


@asynccontextmanager
async def open_sources(
    playing: Playing, policy: PolicyEngine, rewards: RewardEnvironment
) -> AsyncIterator[Sources]:
    """The sources of a method, for the length of the block. Raises `TemperError` for what cannot
    be started."""
    online, seed = playing.online, playing.spec.seed
    async with AsyncExitStack() as stack:
        if not isinstance(online, DistillationMethod):
            scorer = await stack.enter_async_context(open_scorer(rewards_of(online), rewards))
            yield Sources(
                RolloutSource(playing.rollouts(policy, policy.context_length), scorer, seed)
            )
            return
        settings = online.hyperparameters
        remote = await _remote_teacher(playing.spec, rewards, stack)
        student = RolloutSource(playing.rollouts(policy, policy.context_length), None, seed)
        others: Source = DataSource(playing.chat, playing.schemas, response_budget(settings))
        if settings.seq_kd and settings.lmbda < 1.0:
            engine = remote or await _served_teacher(playing, stack)
            others = TeacherSource(RolloutSource(playing.rollouts(engine), None, seed))
        teacher = playing.spec.teacher
        top = (
            # A vLLM that is asked for more tokens than there are does not survive it.
            RemoteTopTokens(remote, min(teacher.top_k, playing.chat.vocabulary))
            if remote is not None and isinstance(teacher, RemoteTeacher)
            else None
        )
        yield Sources(Mixture(student, others, settings.lmbda, seed), top)


async def _remote_teacher(
    spec: OnlineSpec, rewards: RewardEnvironment, stack: AsyncExitStack
) -> CompletionsTokenEngine | None:
    teacher = spec.teacher
    if not isinstance(teacher, RemoteTeacher):
        return None
    key = rewards.key_of(origin_of(teacher.base_url))
    return await stack.enter_async_context(
        CompletionsTokenEngine(str(teacher.base_url), key, teacher.model)
    )


async def _served_teacher(playing: Playing, stack: AsyncExitStack) -> VllmTokenEngine:
    """The engine of a local teacher, beside the policy's."""
    spec = playing.spec
    assert isinstance(spec.teacher, Path)  # noqa: S101 - there is one of the two
    folder = playing.job_dir / TEACHER
    folder.mkdir(exist_ok=True)
    server = await stack.enter_async_context(
        VllmServer(
            spec.vllm.python,
            ModelSource(path=spec.teacher),
            TEACHER,
            [],
            folder,
            engine_options(playing.online, spec, playing.devices),
            routes=Routes(tokens=True),
            devices=playing.devices.engines[0] if playing.devices.engines else None,
        )
    )
    return await stack.enter_async_context(
        VllmTokenEngine(server.base_url, server.api_key, TEACHER, policy_version=-1)
    )
