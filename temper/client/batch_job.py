"""A batch as a job."""

from services.contracts.batches.batches import Batch
from services.contracts.jobs import Job


class BatchJob(Job):
    """A batch with the fields that jobs of every kind share, which OpenAI's shape lacks."""

    batch: Batch
