"""The queues: one pair for each kind of worker."""

from dataclasses import dataclass


@dataclass(frozen=True)
class QueueNames:
    """Where jobs of a kind wait: first for the validation of their files, then for a device."""

    validation: str
    work: str


TRAINING = QueueNames(validation="training.validation", work="training")
EVALUATION = QueueNames(validation="evaluation.validation", work="evaluation")
INDEXING = QueueNames(validation="index.validation", work="index")

ALL_QUEUES = tuple(
    name for pair in (TRAINING, EVALUATION, INDEXING) for name in (pair.validation, pair.work)
)
