"""Build a `Training` from its spec: start the learner and the engine, open tools and files."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from services.contracts.engine import Drafts
from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.trajectories import Trajectory
from services.core.operator_environment import OperatorEnvironment
from services.core.process.outages import Outages
from services.core.process.reporter import Reporter
from services.models.tokenizer_ids.compare import check_prepared
from services.models.tokenizer_ids.id_map import map_ids
from services.models.tokenizer_ids.prepared import prepare_tokenizer
from services.rewards.factory import check_rewards_respond
from services.rollouts.chat import open_chat_tokens
from services.rollouts.log.log import IndexedLog
from services.rollouts.log.updates import UpdateLog
from services.rollouts.outages import OutageWatch, ToolMonitor
from services.rollouts.tools import Toolbox, open_toolbox
from services.rollouts.tools.health import check_tools_respond, check_tools_shown
from services.trainer.rl.checkpoints import (
    Checkpoints,
    TrainingCheckpoint,
    TrainingPosition,
    truncate_metrics,
)
from services.trainer.rl.curriculum import order_of
from services.trainer.rl.direct import DirectTransport
from services.trainer.rl.evaluation import DivergenceEvaluation, PolicyEvaluation
from services.trainer.rl.groups import (
    BatchBuilder,
    Group,
    TrajectorySource,
    group_config,
    restored_groups,
)
from services.trainer.rl.learner.client import LearnerClient
from services.trainer.rl.learner.protocol import ColocatedEngine, LearnerSpec
from services.trainer.rl.loop import Training
from services.trainer.rl.policy_server.building import (
    build_policy_engine,
    serves_merged,
    version_bytes,
)
from services.trainer.rl.policy_server.engine import PolicyEngine
from services.trainer.rl.policy_server.guests import open_to_guests
from services.trainer.rl.policy_server.placement import Devices, divide, transport_of
from services.trainer.rl.prompts import PromptSampler, TrainingPrompt, read_rows
from services.trainer.rl.scheduler import RolloutScheduler, observe, staleness_scheduler
from services.trainer.rl.sources import (
    RolloutContext,
    WatchedSource,
    check_distant_words,
    open_sources,
)
from services.trainer.rl.spec import (
    TEACHER,
    Online,
    OnlineSpec,
    is_exact,
    masks_truncated,
    online_method,
    overlong_penalty_of,
    pass_threshold,
    response_budget,
    rewards_of,
)
from services.trainer.rl.speculation import Speculation
from services.trainer.rl.weight_folder import weight_folder
from services.trainer.rl.weight_sync import PROBE_TOKENS, PROBES, WeightSync

TOKENIZER_FOLDER = "tokenizer"
"""In a job's folder: the tokenizer that the engine loads."""
OUTPUT = "output"


@dataclass(frozen=True)
class OpenTraining:
    """A training that is ready to run, its position, and the groups to complete first."""

    training: Training
    position: TrainingPosition
    restored: Sequence[Group]


@asynccontextmanager
async def open_training(
    spec: OnlineSpec,
    job_dir: Path,
    reporter: Reporter,
    environment: OperatorEnvironment,
    pause: asyncio.Event,
) -> AsyncIterator[OpenTraining]:
    """Start the learner and the engine and prepare the rest, for the duration of the block; once
    ``pause`` is set, training stops with a checkpoint. Raises `TemperError` if a part fails to
    start."""
    online = online_method(spec.method)
    settings = online.hyperparameters
    budget = response_budget(settings)
    rows = read_rows(spec.prompts.path, settings.prompt_type)
    chat = open_chat_tokens(
        spec.tokenizer_folder,
        settings.chat_template_kwargs,
        weights=spec.model,
        neutralizes=settings.control_tokens == "neutralize",
    )
    await _check_teacher(spec, job_dir, reporter, environment)
    tokenizer = prepare_tokenizer(
        spec.tokenizer_folder, job_dir / TOKENIZER_FOLDER, weights=spec.model
    )
    check_prepared(str(spec.model), tokenizer, "vllm", spec.vllm.python)
    checkpoints = Checkpoints(job_dir / OUTPUT, settings.keep_checkpoints)
    checkpoint = checkpoints.newest()
    position = _position(checkpoint, job_dir, reporter)
    placement = settings.placement
    devices = divide(spec.gpus, placement, gpus_per_engine=placement.gpus_per_engine)
    async with AsyncExitStack() as stack:
        toolbox = await stack.enter_async_context(open_toolbox(settings.tools, environment))
        log = stack.enter_context(IndexedLog(job_dir, keep=position.trajectories))
        outages = OutageWatch(job_dir, reporter, settings.infrastructure.pause_share, pause.set)
        updates = stack.enter_context(UpdateLog(job_dir, keep=position.step))
        await _check_services(online, toolbox, environment, job_dir)
        check_tools_shown(toolbox, chat, reporter)
        reporter.phase("loading_model")
        asked = _learner_spec(spec, checkpoint, budget, devices)
        learner = await stack.enter_async_context(
            LearnerClient(spec.training.python, asked, job_dir, devices.trainer)
        )
        if learner.padded is not None:
            reporter.message(f"Sequences are padded: {learner.padded}", "warn")
        reporter.phase("starting_engine")
        sync = stack.enter_context(_weight_sync(spec, online, devices, learner, job_dir, reporter))
        engine = await stack.enter_async_context(
            await build_policy_engine(
                spec, online, devices, sync, position.version, job_dir, tokenizer, reporter
            )
        )
        context = RolloutContext(spec, online, chat, toolbox, job_dir, devices)
        speculation = _speculation(online, engine, reporter)
        stack.push_async_callback(speculation.close)
        sources = await stack.enter_async_context(open_sources(context, engine, environment))
        samples = WatchedSource(sources.samples, outages)
        passing = pass_threshold(online)
        pending = [group.number for group in position.groups]
        order = order_of(
            online, rows, spec.seed, position.curriculum, position.prompts_drawn, pending
        )
        prompts = PromptSampler(
            rows,
            spec.seed,
            context.prompt_length,
            settings.max_prompt_length,
            position.prompts_drawn,
            position.prompts_skipped,
            order=order,
        )
        batches = BatchBuilder(
            budget, overlong_penalty_of(online), sources.teacher, masks_truncated(online)
        )
        rules = group_config(online)
        tools = ToolMonitor(reporter)

        def keep(trajectory: Trajectory) -> None:
            log.append(trajectory)
            tools.observe(trajectory)
            speculation.observe(trajectory)

        schedule = staleness_scheduler(online, position.step, position.version)
        training = Training(
            settings=settings,
            prompts=prompts,
            scheduler=RolloutScheduler(
                prompts,
                samples,
                schedule,
                rules,
                settings.max_concurrency,
                keep,
                outages.declare,
                ended=partial(observe, order, passing) if order and passing else None,
            ),
            batches=batches,
            learner=learner,
            engine=engine,
            sync=sync,
            log=log,
            updates=updates,
            checkpoints=checkpoints,
            reporter=reporter,
            job_dir=job_dir,
            first_probes=_first_probes(rows, context),
            activity=context.activity,
            pass_threshold=pass_threshold(online),
            evaluation=_evaluation(
                context, samples, reporter, DivergenceEvaluation(batches, learner, job_dir)
            ),
            curriculum=order,
            speculation=speculation,
            sleeps=devices.sleep,
            pause=pause,
            outages=outages,
        )
        await stack.enter_async_context(open_to_guests(engine, spec.guests, job_dir))
        yield OpenTraining(training, position, restored_groups(checkpoint, prompts, rules))


@contextmanager
def _weight_sync(
    spec: OnlineSpec,
    online: Online,
    devices: Devices,
    learner: LearnerClient,
    job_dir: Path,
    reporter: Reporter,
) -> Iterator[WeightSync]:
    """How weights pass from the learner to the engine; files of them exist during the block."""
    warn = partial(reporter.message, level="warn")
    bound = version_bytes(spec, online)
    with weight_folder(job_dir, spec.model, version_bytes=bound, warn=warn) as published:
        transport = transport_of(devices, online.hyperparameters.optimizer)
        reporter.message(f"Weights pass to the engine by {transport}")
        yield WeightSync(learner, published, DirectTransport(learner, transport, warn))


async def _check_teacher(
    spec: OnlineSpec, job_dir: Path, reporter: Reporter, environment: OperatorEnvironment
) -> None:
    """Raise `InvalidRequest` for a teacher that lacks tokens of the model."""
    if isinstance(spec.teacher, Path):
        if not map_ids(spec.tokenizer_folder, spec.teacher, TEACHER).is_identity:
            reporter.message("The teacher's tokens have other ids: they are matched by their texts")
    elif spec.teacher is not None:
        with Outages(job_dir).preflight():
            await check_distant_words(spec.tokenizer_folder, spec.teacher, environment)


async def _check_services(
    online: Online, toolbox: Toolbox, environment: OperatorEnvironment, job_dir: Path
) -> None:
    """Ask the tools, and after an outage the rewards, for a sign of life, and the sandbox whether
    it takes what the rewards ask for; raises `TemperError`."""
    with Outages(job_dir).preflight() as is_repeated:
        await check_tools_respond(online.hyperparameters.tools, toolbox)
        rewards = rewards_of(online)
        await check_rewards_respond(rewards, environment, outages=is_repeated)


def _position(
    checkpoint: TrainingCheckpoint | None, job_dir: Path, reporter: Reporter
) -> TrainingPosition:
    """Where to resume; metrics beyond it are dropped."""
    position = checkpoint.position() if checkpoint else TrainingPosition()
    truncate_metrics(job_dir, position.step)
    if checkpoint is not None:
        reporter.message(f"Resuming after step {position.step}", step=position.step)
    return position


def _learner_spec(
    spec: OnlineSpec, checkpoint: TrainingCheckpoint | None, budget: int, devices: Devices
) -> LearnerSpec:
    engine = None
    if devices.engine_memory is not None:
        engine = ColocatedEngine(memory=devices.engine_memory, sleeps=devices.sleep)
    return LearnerSpec(
        model=spec.model,
        adapter=spec.adapter,
        tokenizer=spec.tokenizer,
        teacher=spec.teacher if isinstance(spec.teacher, Path) else None,
        trusted=spec.trusted,
        checkpoint=checkpoint.learner if checkpoint else None,
        socket=Path(),  # set by the learner's client
        seed=spec.seed,
        method=spec.method,
        max_response_length=budget,
        engine=engine,
        publishes_merged=serves_merged(spec),
    )


def _evaluation(
    context: RolloutContext,
    source: TrajectorySource,
    reporter: Reporter,
    divergence: DivergenceEvaluation,
) -> PolicyEvaluation | None:
    """The evaluation on the validation file; None without one."""
    spec, settings = context.spec, context.settings
    if spec.validation is None:
        return None
    prompts = PromptSampler(
        read_rows(spec.validation.path, settings.prompt_type),
        spec.seed,
        context.prompt_length,
        settings.max_prompt_length,
        param="validation_file",
    )
    rewards_to_pass = pass_threshold(context.online)
    return PolicyEvaluation(
        prompts=prompts.usable(),
        source=source,
        samples=settings.eval_samples,
        max_concurrency=settings.max_concurrency,
        pass_threshold=rewards_to_pass,
        reporter=reporter,
        divergence=divergence if rewards_to_pass is None else None,
    )


def _speculation(online: Online, engine: PolicyEngine, reporter: Reporter) -> Speculation:
    """The drafts that the engine was started with, or a decision about them by what it samples."""
    asked = online.hyperparameters.engine.speculation
    return Speculation(
        engine,
        reporter,
        drafts=asked if isinstance(asked, Drafts) else None,
        is_open=asked == "auto" and not is_exact(online),
    )


def _first_probes(rows: Sequence[TrainingPrompt], context: RolloutContext) -> list[list[int]]:
    """Some prompts, to compare learner and engine on before anything was sampled."""
    probes: list[list[int]] = []
    refusal = ""
    for row in rows:
        try:
            tokens = context.chat.prompt(row.prompt.messages, context.offered(row.prompt))
        except InvalidRequest as error:
            refusal = error.message
            continue  # skipped by the sampler, too
        probes.append(tokens[:PROBE_TOKENS])
        if len(probes) == PROBES:
            return probes
    if not probes:
        message = f"the chat template refuses all prompts: {refusal}"
        raise InvalidRequest(message, param="training_file")
    return probes
