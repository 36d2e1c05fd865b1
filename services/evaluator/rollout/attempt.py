"""One attempt at a rollout job, from what earlier attempts left to the statistics."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from services.contracts.errors import InvalidRequest, JobFailed
from services.contracts.rollouts import RolloutStatistics
from services.contracts.trajectories import FinishReason
from services.core.process.reporter import Reporter
from services.evaluator.progress import GenerationProgress, seconds_of_earlier_attempts
from services.evaluator.rollout.playing import Playing, Sample
from services.evaluator.rollout.spec import RolloutSpec
from services.evaluator.rollout.tally import Tally
from services.evaluator.rollout.tokenizer import load_chat_tokens
from services.evaluator.rollout.watched import WatchedEngine
from services.rewards import RewardEnvironment, open_scorer
from services.rollouts.log.log import IndexedLog, read_indexed
from services.rollouts.log.parquet import write_parquet
from services.rollouts.loop import Rollouts
from services.rollouts.prompts import Prompt, read_prompts
from services.rollouts.tools import ToolEnvironment, open_toolbox

PARQUET = "trajectories.parquet"


@dataclass(frozen=True)
class Environment:
    """What the operator has set for the job's tools and rewards."""

    tools: ToolEnvironment
    rewards: RewardEnvironment


async def play(
    spec: RolloutSpec,
    job_dir: Path,
    engine: AbstractAsyncContextManager[WatchedEngine],
    environment: Environment,
    reporter: Reporter,
) -> RolloutStatistics:
    """Play every sample that has no trajectory yet, and sum up all of them.

    ``engine`` is entered only when there is something to play. Safe to call again on the same
    ``job_dir`` after a kill: what was kept is not played again, unless the engine had failed it.
    Raises `TemperError`.
    """
    total = _count(spec) * spec.samples_per_prompt
    tally = Tally(seconds_of_earlier_attempts(job_dir))
    with IndexedLog(job_dir) as log:
        kept = _kept(spec, job_dir, total, tally)
        if tally.trajectories:
            reporter.message(
                f"{tally.trajectories} of {total} rollouts were played in earlier attempts"
            )
        if tally.trajectories < total:
            missing = (sample for sample in _samples(spec) if not kept[_place(spec, sample)])
            await _play(spec, engine, environment, reporter, log, tally, missing, total)
    if tally.failed == tally.trajectories:
        raise _nothing_played(job_dir)
    reporter.phase("summarising")
    await asyncio.to_thread(write_parquet, read_indexed(job_dir), job_dir / PARQUET)
    return tally.statistics()


async def _play(
    spec: RolloutSpec,
    engine: AbstractAsyncContextManager[WatchedEngine],
    environment: Environment,
    reporter: Reporter,
    log: IndexedLog,
    tally: Tally,
    missing: Iterator[Sample],
    total: int,
) -> None:
    chat = await asyncio.to_thread(load_chat_tokens, spec.tokenizer)
    async with (
        open_toolbox(spec.tools, environment.tools) as toolbox,
        open_scorer(spec.rewards, environment.rewards) as scorer,
        engine as model,
    ):
        rollouts = Rollouts(
            model,
            chat,
            toolbox,
            spec.multi_turn,
            spec.sampling,
            stop_token_ids=model.stop_token_ids,
            context_length=model.context_length,
        )
        reporter.phase("playing")
        progress = GenerationProgress(reporter, tally, total)
        await Playing(rollouts, scorer, log, tally, spec.seed).run(
            missing,
            min(spec.max_concurrency, total - tally.trajectories),
            model.watch(),
            log.sync_forever(),
            progress.report_forever(),
        )
        progress.finish()


def _kept(spec: RolloutSpec, job_dir: Path, total: int, tally: Tally) -> bytearray:
    """Which samples need not be played again; these are counted."""
    kept = bytearray(total)
    for trajectory in read_indexed(job_dir):
        if trajectory.finish_reason not in {
            FinishReason.ENGINE_FAILED,
            FinishReason.INTERNAL_ERROR,
        }:
            kept[trajectory.prompt_index * spec.samples_per_prompt + trajectory.sample_index] = True
            tally.add(trajectory)
    return kept


def _prompts(spec: RolloutSpec) -> Iterator[Prompt]:
    prompts = read_prompts(spec.prompts, spec.prompt_type, spec.system_prompt)
    return islice(prompts, spec.max_prompts)


def _samples(spec: RolloutSpec) -> Iterator[Sample]:
    for prompt in _prompts(spec):
        for index in range(spec.samples_per_prompt):
            yield Sample(prompt, index)


def _place(spec: RolloutSpec, sample: Sample) -> int:
    return sample.prompt.index * spec.samples_per_prompt + sample.index


def _count(spec: RolloutSpec) -> int:
    count = sum(1 for _ in _prompts(spec))
    if not count:
        raise InvalidRequest("there are no prompts", param="file")
    return count


def _nothing_played(job_dir: Path) -> JobFailed:
    reason = next(read_indexed(job_dir)).error
    return JobFailed(f"no rollout came to an end: {reason}", code="no_rollouts")
