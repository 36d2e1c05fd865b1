"""The real loop, scheduler and checkpoints with a learner and an engine that a test controls."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from services.contracts.rollouts.trajectories import Trajectory
from services.contracts.training.online import ReinforcementMethod
from services.core.process.reporter import Reporter
from services.rollouts.activity import Activity
from services.rollouts.log.log import IndexedLog
from services.rollouts.log.updates import UpdateLog
from services.rollouts.loop import Rollouts
from services.rollouts.models.tokens import TokenModel
from services.rollouts.outages import OutageWatch
from services.rollouts.prompts import Prompt
from services.rollouts.tools.base import Toolbox
from services.trainer.rl.checkpoints import Checkpoints, TrainingPosition, truncate_metrics
from services.trainer.rl.curriculum import order_of
from services.trainer.rl.evaluation import PolicyEvaluation
from services.trainer.rl.groups import BatchBuilder, group_config, restored_groups
from services.trainer.rl.loop import Training
from services.trainer.rl.prompts import (
    PromptOrder,
    PromptSampler,
    TrainingPrompt,
    read_row,
)
from services.trainer.rl.scheduler import RolloutScheduler, observe, staleness_scheduler
from services.trainer.rl.sources import RolloutSource, WatchedSource
from services.trainer.rl.spec import (
    masks_truncated,
    overlong_penalty_of,
    pass_threshold,
    response_budget,
)
from services.trainer.rl.weight_sync import WeightSync
from tests.support.rl.parts import CountingLearner, SteadyEngine
from tests.support.rollouts import CharacterChat, FunctionToolbox

Judge = Callable[[Trajectory], float | None]


def method(**hyperparameters: Any) -> ReinforcementMethod:
    """A reinforcement method with small settings."""
    small = {
        "steps": 4,
        "prompts_per_step": 2,
        "samples_per_prompt": 2,
        "max_prompt_length": 64,
        "checkpoint_steps": 1,
        "sampling": {"max_tokens": 64},
    }
    rewards = [{"name": "judge", "reward": {"type": "search_em"}}]
    body = {"rewards": rewards, "hyperparameters": {**small, **hyperparameters}}
    return ReinforcementMethod.model_validate(body)


def questions(count: int) -> list[TrainingPrompt]:
    """Rows that ask for their own number."""
    return [read_row({"question": f"q{n}", "gold": "g"}, n, "plain") for n in range(count)]


class JudgingScorer:
    """Rewards what a function says; None is a reward that failed."""

    def __init__(self, judge: Judge, seconds: float = 0.0) -> None:
        self._judge = judge
        self._seconds = seconds

    async def score(self, trajectory: Trajectory) -> Trajectory:
        await asyncio.sleep(self._seconds)
        reward = self._judge(trajectory)
        error = "no judge" if reward is None else None
        components = {} if reward is None else {"judge": reward}
        return trajectory.model_copy(
            update={"reward": reward, "reward_components": components, "reward_error": error}
        )


def by_sample(trajectory: Trajectory) -> float:
    """Rewards that differ in every group."""
    return float(trajectory.sample_index)


@dataclass
class Run:
    """One attempt at a training in a folder."""

    folder: Path
    online: ReinforcementMethod
    engine: SteadyEngine
    rows: Sequence[TrainingPrompt]
    judge: Judge = by_sample
    judge_seconds: float = 0.0
    learner: CountingLearner = field(default_factory=CountingLearner)
    sleeps: bool = False
    held_out: Sequence[TrainingPrompt] = ()
    toolbox: Toolbox = field(default_factory=lambda: FunctionToolbox({}))
    watch: OutageWatch | None = field(default=None, init=False)

    async def play(
        self, killed_after: float | None = None, *, paused_after: float | None = None
    ) -> TrainingPosition | None:
        """Train to the end, or until a pause after these seconds; or end as by a kill, and return
        None."""
        settings = self.online.hyperparameters
        checkpoints = Checkpoints(self.folder / "output", settings.keep_checkpoints)
        checkpoint = checkpoints.newest()
        position = checkpoint.position() if checkpoint else TrainingPosition()
        if checkpoint is not None:
            self.learner.updates = CountingLearner.of(checkpoint.learner).updates
        truncate_metrics(self.folder, position.step)
        chat = CharacterChat()
        model = TokenModel(self.engine, chat, settings.multi_turn, settings.sampling)
        activity = Activity()
        rollouts = Rollouts(model, self.toolbox, settings.multi_turn, activity)
        scorer = JudgingScorer(self.judge, self.judge_seconds)
        rolled_out = RolloutSource(rollouts, scorer, 0, activity)

        def length_of(prompt: Prompt) -> int:
            return len(chat.prompt(prompt.messages, ()))

        def sampler_of(
            rows: Sequence[TrainingPrompt],
            drawn: int,
            skipped: int = 0,
            order: PromptOrder | None = None,
        ) -> PromptSampler:
            longest = settings.max_prompt_length
            return PromptSampler(rows, 0, length_of, longest, drawn, skipped, order=order)

        order = order_of(
            self.online,
            self.rows,
            0,
            position.curriculum,
            position.prompts_drawn,
            [group.number for group in position.groups],
        )
        prompts = sampler_of(self.rows, position.prompts_drawn, position.prompts_skipped, order)
        reporter = Reporter(self.folder)
        pause = asyncio.Event()
        share = settings.infrastructure.pause_share
        watch = self.watch = OutageWatch(self.folder, reporter, share, pause.set)
        source = WatchedSource(rolled_out, watch)
        evaluation = PolicyEvaluation(
            prompts=sampler_of(self.held_out, 0).usable() if self.held_out else [],
            source=source,
            samples=settings.eval_samples,
            max_concurrency=settings.max_concurrency,
            pass_threshold=pass_threshold(self.online),
            reporter=reporter,
        )
        rules, passing = group_config(self.online), pass_threshold(self.online)
        with (
            IndexedLog(self.folder, keep=position.trajectories) as log,
            UpdateLog(self.folder, keep=position.step) as updates,
        ):
            scheduler = RolloutScheduler(
                prompts,
                source,
                staleness_scheduler(self.online, position.step, position.version),
                rules,
                settings.max_concurrency,
                log.append,
                watch.declare,
                ended=partial(observe, order, passing) if order and passing else None,
            )
            training = Training(
                settings=settings,
                prompts=prompts,
                scheduler=scheduler,
                batches=BatchBuilder(
                    response_budget(settings),
                    overlong_penalty_of(self.online),
                    masks_truncated=masks_truncated(self.online),
                ),
                learner=self.learner,
                engine=self.engine,
                sync=WeightSync(self.learner, self.folder / "weights"),
                log=log,
                updates=updates,
                checkpoints=checkpoints,
                reporter=reporter,
                job_dir=self.folder,
                first_probes=[[1, 2, 3]],
                activity=activity,
                pass_threshold=pass_threshold(self.online),
                evaluation=evaluation if self.held_out else None,
                curriculum=order,
                sleeps=self.sleeps,
                pause=pause,
                outages=watch,
            )
            if paused_after is not None:
                asyncio.get_running_loop().call_later(paused_after, training.pause.set)
            await training.begin(position.version)
            restored = restored_groups(checkpoint, prompts, rules)
            rolling = asyncio.create_task(scheduler.run(restored))
            running = asyncio.create_task(training.run(position))
            everything: set[asyncio.Task[Any]] = {rolling, running}
            done, _ = await asyncio.wait(
                everything, timeout=killed_after, return_when=asyncio.FIRST_COMPLETED
            )
            for task in everything:
                task.cancel()
            for task in everything - done:
                with suppress(asyncio.CancelledError):
                    await task
            if running in done:
                return running.result()
            for task in done:
                task.result()
            return None
