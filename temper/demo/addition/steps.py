"""Teaching addition: a supervised fine-tune, and evaluations before and after."""

from pathlib import Path

from services.contracts.adaptation import TrainingType
from services.contracts.evaluations import CreateEvaluation, Evaluation, NumericGrader, Sampling
from services.contracts.files import File, FilePurpose
from services.contracts.fine_tuning import (
    CreateFineTuningJob,
    Method,
    SupervisedHyperparameters,
    SupervisedMethod,
)
from temper.demo.addition.outcome import Outcome
from temper.demo.steps import Demo, DemoFailed


def teach(demo: Demo, model_folder: Path, data: Path) -> Outcome:
    """Teach and test."""
    demo.out.line("(b) base model and data")
    base = demo.register(model_folder)
    training = demo.upload(data / "train.jsonl", FilePurpose.FINE_TUNE)
    held_out = demo.upload(data / "heldout.jsonl", FilePurpose.EVALS)
    demo.out.line("(c) supervised fine-tune, and the base model's evaluation behind it")
    tuning_id = demo.submit(training_request(base, training), training)
    before_id = demo.submit(evaluation_request(base, held_out), held_out)
    demo.finish(tuning_id)
    tuning = demo.client.fine_tuning.get(tuning_id)
    demo.out.line("(d) evaluations before and after, served by vLLM")
    tuned = tuning.fine_tuned_model or ""
    after_id = demo.submit(evaluation_request(tuned, held_out), held_out)
    demo.finish(before_id)
    demo.finish(after_id)
    return Outcome(tuning, _evaluation(demo, before_id), _evaluation(demo, after_id))


def _evaluation(demo: Demo, job_id: str) -> Evaluation:
    evaluation = demo.client.evaluations.get(job_id)
    if evaluation.metrics is None:
        raise DemoFailed(f"{job_id} has no metrics")
    return evaluation


def training_request(base: str, file: File) -> CreateFineTuningJob:
    """All weights, from scratch: a high learning rate that decays, and a few passes."""
    hyperparameters = SupervisedHyperparameters(
        n_epochs=3,
        batch_size=32,
        learning_rate=4e-3,
        warmup_ratio=0.05,
        training_type=TrainingType.FULL,
        max_seq_length=128,
    )
    return CreateFineTuningJob(
        model=base,
        training_file=file.id,
        suffix="addition",
        seed=1,
        method=Method(supervised=SupervisedMethod(hyperparameters=hyperparameters)),
    )


def evaluation_request(model: str, file: File) -> CreateEvaluation:
    """Greedy answers, right when their last number is the sum."""
    return CreateEvaluation(
        model=model, file=file.id, grader=NumericGrader(), sampling=Sampling(max_tokens=48)
    )
