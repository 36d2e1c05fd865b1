"""How indexing jobs look on the wire."""

from services.api.jobs.view import state_fields
from services.contracts.indexes import CreateIndexingJob, IndexBuildMetrics, IndexingJob
from services.core.jobs.job import Job


def indexing_view(job: Job) -> IndexingJob:
    """A job that builds an index."""
    request = CreateIndexingJob.model_validate(job.request)
    result = job.result or {}
    metrics = result.get("metrics")
    return IndexingJob(
        index=request.index,
        file=request.file,
        mode=request.mode,
        language=request.language,
        encoder=request.encoder,
        dense=request.dense,
        version=result.get("version"),
        metrics=IndexBuildMetrics.model_validate(metrics) if metrics else None,
        **state_fields(job),
    )
