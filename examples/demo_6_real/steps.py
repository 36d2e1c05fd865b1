"""The lessons: a conversion, a short fine-tune that shows the format, and RL on graded calls."""

from dataclasses import dataclass
from pathlib import Path

from examples.demo_6_real.data import CallingData
from examples.demo_common.steps import Demo
from temper.types import (
    CreateEvaluation,
    CreateFineTuningJob,
    CreateMerge,
    DynamicSampling,
    Evaluation,
    File,
    FilePurpose,
    FineTuningJob,
    FunctionCallsGrader,
    LoraSettings,
    Method,
    MethodType,
    OptimizerSettings,
    ReinforcementHyperparameters,
    ReinforcementMethod,
    RolloutSampling,
    Sampling,
    SupervisedHyperparameters,
    SupervisedMethod,
    TrainingType,
    WeightedReward,
)

REINFORCEMENT_STEPS = 10
PROMPTS_PER_STEP = 8
DRAWN_PER_STEP = 3 * PROMPTS_PER_STEP
"""Prompts to write for a step: those whose samples are all right or all wrong teach nothing."""
SAMPLES = 4
MEASURED = 2
"""Answers to each held-out problem."""
MAX_TOKENS = 40
LORA = LoraSettings(rank=16)


@dataclass(frozen=True)
class CallingLesson:
    """Both trainings, and the evaluations of the model as published and after each of them."""

    supervised: FineTuningJob
    reinforcement: FineTuningJob
    published: Evaluation
    tuned: Evaluation
    reinforced: Evaluation

    @property
    def evaluations(self) -> tuple[Evaluation, Evaluation, Evaluation]:
        """The evaluations, in the order of the lessons."""
        return self.published, self.tuned, self.reinforced


def teach(demo: Demo, model: Path, data: CallingData, steps: int, seed: int) -> CallingLesson:
    """Convert the model, train it twice, and measure it before, between and after."""
    demo.out.line("(b) the model, converted to safetensors, and data")
    base = demo.convert(CreateMerge(model=demo.register(model), suffix="full"))
    training = demo.upload(data.training, FilePurpose.FINE_TUNE)
    prompts = demo.upload(data.prompts, FilePurpose.FINE_TUNE)
    held_out = demo.upload(data.held_out, FilePurpose.EVALS)
    demo.out.line("(c) the model as published, on held-out problems")
    published = demo.evaluated(demo.submit(evaluation(base, held_out), held_out))
    demo.out.line("(d) supervised fine-tune: a few calls, which show the format")
    tuned = demo.train(supervised(base, training, seed), training)
    name = tuned.fine_tuned_model or ""
    between = demo.evaluated(demo.submit(evaluation(name, held_out), held_out))
    demo.out.line("(e) reinforcement (GRPO with dynamic sampling): calls are sampled and graded")
    reinforced = demo.train(reinforcement(name, prompts, steps, seed), prompts)
    demo.out.line("(f) the reinforced model, on the same problems")
    last = evaluation(reinforced.fine_tuned_model or "", held_out)
    after = demo.evaluated(demo.submit(last, held_out))
    return CallingLesson(tuned, reinforced, published, between, after)


def supervised(base: str, file: File, seed: int) -> CreateFineTuningJob:
    """An adapter, one short epoch."""
    hyperparameters = SupervisedHyperparameters(
        n_epochs=1,
        batch_size=4,
        learning_rate=5e-4,
        warmup_ratio=0.1,
        training_type=TrainingType.LORA,
        lora=LORA,
        max_seq_length=128,
    )
    return CreateFineTuningJob(
        model=base,
        training_file=file.id,
        suffix="calls",
        seed=seed,
        method=Method(supervised=SupervisedMethod(hyperparameters=hyperparameters)),
    )


def reinforcement(model: str, file: File, steps: int, seed: int) -> CreateFineTuningJob:
    """GRPO with dynamic sampling, on the same adapter; the reward is the evaluation's own check."""
    hyperparameters = ReinforcementHyperparameters(
        steps=steps,
        prompts_per_step=PROMPTS_PER_STEP,
        samples_per_prompt=SAMPLES,
        optimizer=OptimizerSettings(
            training_type=TrainingType.LORA,
            lora=LORA,
            learning_rate=1e-4,
            weight_decay=0.0,
            micro_batch_tokens=2048,
        ),
        sampling=RolloutSampling(max_tokens=MAX_TOKENS),
        dynamic_sampling=DynamicSampling(max_batches=4),
        checkpoint_steps=steps,
    )
    reward = WeightedReward(name="call", reward=FunctionCallsGrader())
    method = ReinforcementMethod(rewards=[reward], hyperparameters=hyperparameters)
    return CreateFineTuningJob(
        model=model,
        training_file=file.id,
        suffix="reinforced",
        seed=seed,
        method=Method(type=MethodType.REINFORCEMENT, reinforcement=method),
    )


def evaluation(model: str, file: File) -> CreateEvaluation:
    """Answers as RL samples them, correct when they state the right call."""
    return CreateEvaluation(
        model=model,
        file=file.id,
        grader=FunctionCallsGrader(),
        sampling=Sampling(max_tokens=MAX_TOKENS, temperature=1.0),
        samples_per_item=MEASURED,
    )
