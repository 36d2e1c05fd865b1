"""How rollout jobs look on the wire."""

from services.api.jobs.view import state_fields
from services.contracts.rollouts import CreateRollout, Rollout, RolloutStatistics
from services.core.jobs.job import Job


def rollout_view(job: Job) -> Rollout:
    """A rollout job."""
    request = CreateRollout.model_validate(job.request)
    statistics = (job.result or {}).get("statistics")
    return Rollout(
        model=request.model,
        tokenizer=request.tokenizer,
        file=request.file,
        prompt_type=request.prompt_type,
        samples_per_prompt=request.samples_per_prompt,
        tools=request.tools,
        multi_turn=request.multi_turn,
        sampling=request.sampling,
        rewards=request.rewards,
        seed=request.seed,
        statistics=RolloutStatistics.model_validate(statistics) if statistics else None,
        **state_fields(job),
    )
