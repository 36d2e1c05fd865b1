"""The child process that runs the rollouts of a job.

``python -m services.evaluator.rollout.child <job_dir>`` in the core environment. It reads
``spec.json``, appends to ``trajectories.jsonl`` and its index, and ends with
``trajectories.parquet`` and the statistics, or fails with its cause. It may be killed at any time
and restarted on the same folder.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import islice
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, JobFailed
from services.contracts.rollouts.rollouts import RolloutStatistics
from services.contracts.rollouts.trajectories import FinishReason
from services.core.artifacts import SourceFile
from services.core.operator_environment import OperatorEnvironment
from services.core.process.outages import Outages
from services.core.process.reporter import Reporter
from services.datasets.validate import FileValidation, PromptTemplate
from services.evaluator.child_process import ChildContext, run_child
from services.evaluator.progress import GenerationProgress, seconds_of_earlier_attempts
from services.evaluator.rollout.engine import WatchedEngine, open_engine
from services.evaluator.rollout.runner import PlannedRollout, RolloutRunner
from services.evaluator.rollout.spec import SPEC, RolloutSpec
from services.evaluator.rollout.totals import RolloutTotals
from services.evaluator.tokenizers import chat_folder, load_chat_tokens
from services.rewards.factory import check_rewards_respond
from services.rewards.scorer import open_scorer
from services.rollouts.activity import Activity
from services.rollouts.chat.prompt_check import PromptCheck
from services.rollouts.log.log import IndexedLog, read_indexed
from services.rollouts.log.parquet import write_parquet
from services.rollouts.open_rollouts import RolloutSettings, open_rollouts
from services.rollouts.outages import OutageWatch, ToolMonitor
from services.rollouts.prompts import Prompt, read_prompts
from services.rollouts.tools import open_toolbox
from services.rollouts.tools.health import check_tools_respond, check_tools_shown

PARQUET = "trajectories.parquet"
INLINE = "prompts"
"""The request's field of prompts that are not in a file."""


async def play(
    spec: RolloutSpec,
    job_dir: Path,
    engine: AbstractAsyncContextManager[WatchedEngine],
    environment: OperatorEnvironment,
    reporter: Reporter,
) -> RolloutStatistics:
    """Run every rollout that has no trajectory yet, and sum up all of them.

    ``engine`` is entered only if rollouts are left. Safe to repeat on the same ``job_dir`` after a
    kill: stored rollouts are not repeated, except those that the engine failed.
    Raises `TemperError`.
    """
    total = _count(spec) * spec.samples_per_prompt
    totals = RolloutTotals(seconds_of_earlier_attempts(job_dir))
    with IndexedLog(job_dir) as log:
        kept = _kept(spec, job_dir, total, totals)
        if totals.trajectories:
            reporter.message(
                f"{totals.trajectories} of {total} rollouts were completed in earlier attempts"
            )
        if totals.trajectories < total:
            missing = (sample for sample in _samples(spec) if not kept[_place(spec, sample)])
            await _play_missing(
                spec, job_dir, engine, environment, reporter, log, totals, missing, total
            )
    if not totals.counted:
        raise _all_failed(job_dir)
    reporter.phase("summarizing")
    await asyncio.to_thread(write_parquet, read_indexed(job_dir), job_dir / PARQUET)
    return totals.statistics()


async def _play_missing(
    spec: RolloutSpec,
    job_dir: Path,
    engine: AbstractAsyncContextManager[WatchedEngine],
    environment: OperatorEnvironment,
    reporter: Reporter,
    log: IndexedLog,
    totals: RolloutTotals,
    missing: Iterator[PlannedRollout],
    total: int,
) -> None:
    chat = await asyncio.to_thread(
        load_chat_tokens,
        spec.tokenizer,
        spec.chat_template_kwargs,
        neutralizes=spec.control_tokens == "neutralize",
    )
    if spec.is_inline:
        await asyncio.to_thread(_check_prompts, spec, reporter)
    async with AsyncExitStack() as stack:
        toolbox = await stack.enter_async_context(open_toolbox(spec.tools, environment))
        with Outages(job_dir).preflight() as is_repeated:
            await check_tools_respond(spec.tools, toolbox)
            check_tools_shown(toolbox, chat, reporter)
            await check_rewards_respond(spec.rewards, environment, outages=is_repeated)
        scorer = await stack.enter_async_context(open_scorer(spec.rewards, environment))
        model = await stack.enter_async_context(engine)
        playing = RolloutSettings(
            spec.multi_turn,
            spec.sampling,
            toolbox,
            spec.agent,
            spec.model_name,
            spec.max_concurrency,
            Activity(),
        )
        rollouts = await stack.enter_async_context(
            open_rollouts(
                playing,
                model,
                chat,
                environment,
                stop_token_ids=model.stop_token_ids,
                context_length=model.context_length,
            )
        )
        reporter.phase("playing")
        progress = GenerationProgress(reporter, totals, total)
        tools, outages = ToolMonitor(reporter), OutageWatch(job_dir, reporter)
        await RolloutRunner(rollouts, scorer, log, totals, tools, outages, spec.seed).run(
            missing,
            min(spec.max_concurrency, total - totals.trajectories),
            model.watch(),
            log.sync_forever(),
            progress.report_forever(),
        )
        progress.finish()


def _kept(spec: RolloutSpec, job_dir: Path, total: int, totals: RolloutTotals) -> bytearray:
    """Flags of the rollouts that need not be repeated; these are added to the totals."""
    kept = bytearray(total)
    for trajectory in read_indexed(job_dir):
        is_lost = trajectory.left_out is not None
        if not is_lost and trajectory.finish_reason not in {
            FinishReason.ENGINE_FAILED,
            FinishReason.INTERNAL_ERROR,
        }:
            kept[trajectory.prompt_index * spec.samples_per_prompt + trajectory.sample_index] = True
            totals.add(trajectory)
    return kept


def _prompts(spec: RolloutSpec) -> Iterator[Prompt]:
    prompts = read_prompts(spec.prompts, spec.prompt_type, spec.system_prompt)
    return islice(prompts, spec.max_prompts)


def _check_prompts(spec: RolloutSpec, reporter: Reporter) -> None:
    """Say what the chat template makes of the prompts, as is said of those of a file."""
    template = PromptTemplate(
        folder=chat_folder(spec.tokenizer),
        variables=spec.chat_template_kwargs,
        tools=spec.tools if spec.multi_turn.multi_turn_enable else [],
        neutralizes=spec.control_tokens == "neutralize",
    )
    check = PromptCheck(template)
    for prompt in _prompts(spec):
        check.add(prompt.index + 1, prompt.messages, extra=prompt.extra)
    source = SourceFile(path=spec.prompts, filename=INLINE)
    check.finish(FileValidation(INLINE, source, reporter, lambda _: None))


def _samples(spec: RolloutSpec) -> Iterator[PlannedRollout]:
    for prompt in _prompts(spec):
        for index in range(spec.samples_per_prompt):
            yield PlannedRollout(prompt, index)


def _place(spec: RolloutSpec, sample: PlannedRollout) -> int:
    return sample.prompt.index * spec.samples_per_prompt + sample.index


def _count(spec: RolloutSpec) -> int:
    count = sum(1 for _ in _prompts(spec))
    if not count:
        raise InvalidRequest("there are no prompts", param="file")
    return count


def _all_failed(job_dir: Path) -> JobFailed:
    first = next(read_indexed(job_dir))
    reason = first.error or first.reward_error
    return JobFailed(f"no rollout came to an end: {reason}", code="no_rollouts")


async def _run(context: ChildContext) -> JsonObject:
    job_dir = context.job_dir
    spec = RolloutSpec.model_validate_json((job_dir / SPEC).read_bytes())
    engine = open_engine(spec, job_dir, context.reporter, context.endpoint_key)
    statistics = await play(spec, job_dir, engine, context.environment, context.reporter)
    return {"statistics": statistics.model_dump(mode="json")}


if __name__ == "__main__":
    run_child(Path(sys.argv[1]), _run)
