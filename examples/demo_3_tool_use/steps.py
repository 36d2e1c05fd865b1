"""Teaching tool use: a cold start on conversations, then GRPO with live calls."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from examples.demo_3_tool_use.tasks import ToolTask, conversation_row, prompt_row
from examples.demo_common.setup import write_rows
from examples.demo_common.steps import Demo
from temper.types import (
    CreateFineTuningJob,
    CreateRollout,
    DynamicSampling,
    File,
    FilePurpose,
    FineTuningJob,
    Method,
    MethodType,
    MultiTurn,
    OptimizerSettings,
    ReinforcementHyperparameters,
    ReinforcementMethod,
    Rollout,
    RolloutSampling,
    SearchEmReward,
    SupervisedHyperparameters,
    SupervisedMethod,
    TrainingType,
    WeightedReward,
)

HELD_OUT = 200
SAMPLES = 4
PROMPTS_PER_STEP = 16
REINFORCEMENT_STEPS = 80
CORRECT = "correct"

MULTI_TURN = MultiTurn(
    multi_turn_enable=True,
    max_tool_calls=2,
    max_total_response_length=160,
    max_tool_response_length=256,
)
SAMPLING = RolloutSampling(max_tokens=96)


@dataclass(frozen=True)
class ToolUseData:
    """Three files of disjoint questions: cold start, reinforcement, held out."""

    conversations: Path
    prompts: Path
    held_out: Path


@dataclass(frozen=True)
class ToolUseLesson:
    """The training jobs, and each model's rollouts on the held-out questions."""

    cold_start: FineTuningJob
    reinforcement: FineTuningJob
    before: Rollout
    after: Rollout
    without_tool: Rollout


def write_data(task: ToolTask, folder: Path, steps: int, seed: int) -> ToolUseData:
    """Write the data of a seed, deterministically."""
    folder.mkdir(parents=True, exist_ok=True)
    data = ToolUseData(
        folder / "conversations.jsonl", folder / "prompts.jsonl", folder / "heldout.jsonl"
    )
    prompts = PROMPTS_PER_STEP * steps
    questions = iter(task.questions(task.conversations + prompts + HELD_OUT, seed))
    write_rows(
        data.conversations,
        (conversation_row(task, q) for q in islice(questions, task.conversations)),
    )
    write_rows(data.prompts, (prompt_row(task, q) for q in islice(questions, prompts)))
    write_rows(data.held_out, (prompt_row(task, q) for q in questions))
    return data


def teach(
    demo: Demo, task: ToolTask, model: Path, data: ToolUseData, steps: int, seed: int
) -> ToolUseLesson:
    """Train, and sample the held-out questions before and after."""
    demo.out.line("(b) base model and data")
    base = demo.register(model)
    conversations = demo.upload(data.conversations, FilePurpose.FINE_TUNE)
    prompts = demo.upload(data.prompts, FilePurpose.FINE_TUNE)
    held_out = demo.upload(data.held_out, FilePurpose.EVALS)
    demo.out.line("(c) cold start: conversations that use the tool")
    cold = demo.train(cold_start(task, base, conversations, seed), conversations)
    demo.out.line("(d) sampled accuracy before reinforcement")
    before = demo.sample(rollout(task, cold, held_out), held_out)
    demo.out.line("(e) reinforcement (GRPO with dynamic sampling) with live tool calls")
    tuned = demo.train(reinforcement(task, cold, prompts, steps, seed), prompts)
    demo.out.line("(f) sampled accuracy after reinforcement, with and without the tool")
    after = demo.sample(rollout(task, tuned, held_out), held_out)
    bare = demo.sample(rollout(task, tuned, held_out, with_tool=False), held_out)
    return ToolUseLesson(cold, tuned, before, after, bare)


def cold_start(task: ToolTask, base: str, file: File, seed: int) -> CreateFineTuningJob:
    """Full fine-tuning from random weights: one epoch at a high, decaying learning rate."""
    hyperparameters = SupervisedHyperparameters(
        n_epochs=1,
        batch_size=16,
        learning_rate=3e-3,
        warmup_ratio=0.05,
        training_type=TrainingType.FULL,
        max_seq_length=320,
        llamafactory={"lr_scheduler_type": "cosine"},
    )
    return CreateFineTuningJob(
        model=base,
        training_file=file.id,
        suffix=f"{task.name}-cold",
        seed=seed,
        method=Method(supervised=SupervisedMethod(hyperparameters=hyperparameters)),
    )


def reinforcement(
    task: ToolTask, cold: FineTuningJob, file: File, steps: int, seed: int
) -> CreateFineTuningJob:
    """GRPO with dynamic sampling, with a learning rate for a model this small."""
    hyperparameters = ReinforcementHyperparameters(
        steps=steps,
        prompts_per_step=PROMPTS_PER_STEP,
        samples_per_prompt=8,
        # Small micro-batches stay in the CPU cache: an update takes a third less time.
        optimizer=OptimizerSettings(learning_rate=1e-4, weight_decay=0.0, micro_batch_tokens=2048),
        sampling=SAMPLING,
        multi_turn=MULTI_TURN,
        tools=[task.tool],
        dynamic_sampling=DynamicSampling(),
        max_staleness=1,
        checkpoint_steps=50,
    )
    method = ReinforcementMethod(rewards=[task.reward], hyperparameters=hyperparameters)
    return CreateFineTuningJob(
        model=cold.fine_tuned_model or "",
        training_file=file.id,
        suffix=task.name,
        seed=seed,
        method=Method(type=MethodType.REINFORCEMENT, reinforcement=method),
    )


def rollout(
    task: ToolTask, tuned: FineTuningJob, file: File, *, with_tool: bool = True
) -> CreateRollout:
    """Sample each held-out question several times; a zero-weight reward counts correct answers."""
    counted = WeightedReward(name=CORRECT, weight=0.0, reward=SearchEmReward())
    return CreateRollout(
        model=tuned.fine_tuned_model or "",
        file=file.id,
        samples_per_prompt=SAMPLES,
        tools=[task.tool] if with_tool else [],
        multi_turn=MULTI_TURN if with_tool else MultiTurn(),
        sampling=SAMPLING,
        rewards=[task.reward, counted],
    )
