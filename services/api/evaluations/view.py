"""How evaluations look on the wire."""

from services.api.jobs.view import state_fields
from services.contracts.evaluations import CreateEvaluation, Evaluation, EvaluationMetrics
from services.core.jobs.job import Job


def evaluation_view(job: Job) -> Evaluation:
    """An evaluation job."""
    request = CreateEvaluation.model_validate(job.request)
    metrics = (job.result or {}).get("metrics")
    return Evaluation(
        model=request.model,
        file=request.file,
        grader=request.grader,
        sampling=request.sampling,
        metrics=EvaluationMetrics.model_validate(metrics) if metrics else None,
        **state_fields(job),
    )
