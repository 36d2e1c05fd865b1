"""The queues: one pair for each kind of job."""

from dataclasses import dataclass


@dataclass(frozen=True)
class QueueNames:
    """Where jobs of a kind wait: first for the validation of their files, then for a device."""

    validation: str
    work: str

    @property
    def both(self) -> tuple[str, str]:
        """The names, in the order in which a job passes through the queues."""
        return self.validation, self.work


TRAINING = QueueNames(validation="training.validation", work="training")
EVALUATION = QueueNames(validation="evaluation.validation", work="evaluation")
ROLLOUT = QueueNames(validation="rollout.validation", work="rollout")
INDEXING = QueueNames(validation="index.validation", work="index")

ALL_QUEUES = tuple(name for pair in (TRAINING, EVALUATION, ROLLOUT, INDEXING) for name in pair.both)
