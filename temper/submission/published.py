"""Run files of MindSpeed-RL and verl, as the settings of rollout jobs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.contracts.errors import InvalidRequest
from services.contracts.published_rewards import published_rewards
from services.contracts.rollouts import CreateRollout
from temper.formats.published_rollouts import PublishedRun, is_published, read_published
from temper.submission.errors import SubmissionError

PUBLISHED = "published"
"""The field of a job file that names a published run file."""


def with_published(path: Path, body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a rollout job, completed by what a published run file says.

    The file is the one that ``published`` names, beside the job file ``path``, or the job file
    itself, whose other sections then are the training's own and do not count. What the job file
    says goes before. Raises `SubmissionError`.
    """
    own = {name: value for name, value in body.items() if name != PUBLISHED}
    named = body.get(PUBLISHED)
    if named is None and not is_published(body):
        return own
    if named is None:
        source, own = path, {name: value for name, value in own.items() if _is_own(name, value)}
    else:
        source = path.parent / Path(str(named)).expanduser()
    try:
        return {**_fields(read_published(source)), **own}
    except InvalidRequest as error:
        raise SubmissionError(f"{path}: {error.message}") from error
    except OSError as error:
        raise SubmissionError(f"{path}: {PUBLISHED}: {source}: {error.strerror}") from error


def _is_own(name: str, value: Any) -> bool:
    """Whether a field is ours, or a slip that is to be told; their sections hold other fields."""
    return name in CreateRollout.model_fields or not isinstance(value, Mapping | list)


def _fields(run: PublishedRun) -> dict[str, Any]:
    weights = run.verifier_weights or (1.0,) * len(run.verifier_functions)
    rewards = published_rewards(run.verifier_functions, weights)
    enabled = run.multi_turn.multi_turn_enable
    fields = {
        "multi_turn": run.multi_turn.model_dump(mode="json"),
        "sampling": run.sampling.model_dump(mode="json"),
        "tools": [tool.model_dump(mode="json") for tool in run.tools] if enabled else [],
        "prompt_type": run.prompt_type,
        "samples_per_prompt": run.samples_per_prompt,
        "rewards": [reward.model_dump(mode="json") for reward in rewards],
    }
    return {name: value for name, value in fields.items() if value is not None}
