"""Job files completed by published run files of MindSpeed-RL and verl."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.contracts.errors import InvalidRequest
from services.contracts.fine_tuning import MethodType
from services.contracts.published_rewards import published_rewards
from services.contracts.rollouts import CreateRollout
from temper.formats.published_runs import PublishedRun, is_published, read_published
from temper.submission.submission import SubmissionError

PUBLISHED = "published"
"""The field of a job file that names a published run file."""


def with_published(path: Path, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a rollout job, completed from a published run file.

    That file is the one that ``published`` names, relative to the job file ``path``, or the job
    file itself, whose training sections are then ignored. Fields of the job file take precedence.
    Raises `SubmissionError`.
    """
    own = _own_fields(body)
    named = body.get(PUBLISHED)
    if named is None and not is_published(body):
        return own
    if named is None:
        source, own = path, {name: value for name, value in own.items() if _is_ours(name, value)}
    else:
        source = path.parent / Path(str(named)).expanduser()
    run, rewards = _read(path, source)
    return {**_rollout_fields(run), "rewards": rewards, **own}


def with_published_training(path: Path, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a fine-tuning job, completed from the run file that ``published`` names.

    The method is then reinforcement; what the job file says about it takes precedence. Raises
    `SubmissionError`.
    """
    own = _own_fields(body)
    if PUBLISHED not in body:
        return own
    run, rewards = _read(path, path.parent / Path(str(body[PUBLISHED])).expanduser())
    hyperparameters = _rollout_fields(run)
    if run.max_prompt_length is not None:
        hyperparameters["max_prompt_length"] = run.max_prompt_length
    given = _mapping(_mapping(own.get("method")).get(MethodType.REINFORCEMENT))
    settings = {
        **({"rewards": rewards} if rewards else {}),
        **given,
        "hyperparameters": {**hyperparameters, **_mapping(given.get("hyperparameters"))},
    }
    method = {"type": MethodType.REINFORCEMENT.value, MethodType.REINFORCEMENT.value: settings}
    return {**own, "method": method}


def _own_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != PUBLISHED}


def _is_ours(name: str, value: Any) -> bool:
    """Whether a field belongs to the job, not to the run file, whose fields are all sections.

    An unknown scalar counts as ours, so that a typo is reported.
    """
    return name in CreateRollout.model_fields or not isinstance(value, Mapping | list)


def _read(job_file: Path, source: Path) -> tuple[PublishedRun, list[dict[str, Any]]]:
    """The run file and the rewards that it names."""
    try:
        run = read_published(source)
        weights = run.verifier_weights or (1.0,) * len(run.verifier_functions)
        rewards = published_rewards(run.verifier_functions, weights)
    except InvalidRequest as error:
        raise SubmissionError(f"{job_file}: {error.message}") from error
    except OSError as error:
        raise SubmissionError(f"{job_file}: {PUBLISHED}: {source}: {error.strerror}") from error
    return run, [reward.model_dump(mode="json") for reward in rewards]


def _rollout_fields(run: PublishedRun) -> dict[str, Any]:
    enabled = run.multi_turn.multi_turn_enable
    fields = {
        "multi_turn": run.multi_turn.model_dump(mode="json"),
        "sampling": run.sampling.model_dump(mode="json"),
        "tools": [tool.model_dump(mode="json") for tool in run.tools] if enabled else [],
        "prompt_type": run.prompt_type,
        "samples_per_prompt": run.samples_per_prompt,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
