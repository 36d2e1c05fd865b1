"""Updates of the learner of online training, measured in this process."""

from pathlib import Path

import numpy as np

from benchmarks.memory.cases import Case
from benchmarks.memory.peak import MEASURED_STEPS, Measured, Meter, timed_steps
from services.trainer.rl.batch import TrainingBatch, TrainingSequence
from services.trainer.rl.learner.learner import Learner
from services.trainer.rl.learner.micro_batches import TrainedTokens
from services.trainer.rl.learner.parallel import ProcessGroup
from services.trainer.rl.learner.protocol import LearnerSpec

MICRO_BATCHES = 2
PROMPT = 8


def measure(case: Case, model: Path, folder: Path) -> Measured:
    """Take a few updates, of sequences of full length."""
    spec = LearnerSpec(
        model=model,
        socket=folder / "unused",
        seed=0,
        method=case.request(),
        max_response_length=case.length,
    )
    learner = Learner(spec, ProcessGroup(spec.settings.optimizer))
    tokens = TrainedTokens.of(_batch(case, learner.vocabulary))
    meter = Meter()
    meter.begin()
    for step in range(MEASURED_STEPS + timed_steps()):
        learner.updater.update(tokens, step)
        meter.end_of_step()
    return meter.measured(MICRO_BATCHES * case.micro_batch_tokens)


def _batch(case: Case, vocabulary: int) -> TrainingBatch:
    draw = np.random.default_rng(0)
    sequences = MICRO_BATCHES * case.rows
    return TrainingBatch(tuple(_sequence(case, vocabulary, n, draw) for n in range(sequences)))


def _sequence(
    case: Case, vocabulary: int, number: int, draw: np.random.Generator
) -> TrainingSequence:
    mask = np.arange(case.length) >= PROMPT
    return TrainingSequence(
        token_ids=draw.integers(0, vocabulary, case.length).astype(np.int32),
        mask=mask,
        sampler_log_probs=np.where(mask, -np.log(vocabulary), 0.0).astype(np.float32),
        policy_versions=np.where(mask, 0, -1).astype(np.int32),
        reward=float(number % 2),
        group=0,
    )
