"""Job files completed by published run files of MindSpeed-RL and verl."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.rollouts import CreateRollout
from temper.formats.published_runs import (
    PublishedRun,
    is_published,
    read_prompt_type,
    read_published,
)
from temper.formats.published_training import read_published_training
from temper.submission.published_rewards import published_rewards
from temper.submission.submission import SubmissionError, user_path

PUBLISHED = "published"
"""The field of a job file that names a published run file."""
PUBLISHED_DATASET = "published_dataset"
"""The field of a fine-tuning file that names a dataset file published with it."""


def with_published(path: Path, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a rollout job, completed from a published run file.

    ``published`` names that file, relative to the job file ``path``. Without it, the job file
    itself is the run file, and its training sections are ignored. Fields of the job file take
    precedence. Raises `SubmissionError`.
    """
    own = _own_fields(body)
    named = body.get(PUBLISHED)
    if named is None and not is_published(body):
        return own
    if named is None:
        source, own = path, {name: value for name, value in own.items() if _is_ours(name, value)}
    else:
        source = _beside(path, named)
    run, rewards = _read(path, source)
    return {**_rollout_fields(run), "rewards": rewards, **own}


def with_published_training(
    path: Path, body: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields of a fine-tuning job completed from a published run file, and notes.

    ``published`` names the run file, whose estimator decides between reinforcement and PPO;
    ``published_dataset`` may name a dataset file with its prompt type. The job file's own settings
    take precedence, key by key. The note lists the run file's settings that have no counterpart.
    Raises `SubmissionError`.
    """
    own = _own_fields(body)
    if PUBLISHED not in body:
        return own, ()
    source = _beside(path, body[PUBLISHED])
    run, rewards = _read(path, source)
    try:
        training = read_published_training(source)
        dataset = body.get(PUBLISHED_DATASET)
        prompt_type = None if dataset is None else read_prompt_type(_beside(path, dataset))
    except InvalidRequest as error:
        raise SubmissionError(f"{path}: {error.message}") from error
    hyperparameters = {**_rollout_fields(run), **training.hyperparameters}
    if run.max_prompt_length is not None:
        hyperparameters["max_prompt_length"] = run.max_prompt_length
    if prompt_type is not None:
        hyperparameters["prompt_type"] = prompt_type
    name = training.method.value
    chosen = _mapping(own.get("method"))
    if chosen.get("type", name) != name:
        raise SubmissionError(f"{path}: method.type: {source.name} trains with {name}")
    given = _mapping(chosen.get(name))
    settings = {
        **({"rewards": rewards} if rewards else {}),
        **given,
        "hyperparameters": _merged(hyperparameters, _mapping(given.get("hyperparameters"))),
    }
    if training.epochs_key is not None and "steps" not in settings["hyperparameters"]:
        raise SubmissionError(
            f"{path}: {source.name}: {training.epochs_key} counts epochs, and the data decide how "
            f"many steps they have: set method.{name}.hyperparameters.steps"
        )
    if training.seed is not None:
        own = {"seed": training.seed, **own}
    notes: tuple[str, ...] = ()
    if training.ignored:
        notes = (f"{source.name}: settings without a counterpart: {', '.join(training.ignored)}",)
    return {**own, "method": {"type": name, name: settings}}, notes


def _own_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in body.items() if name not in {PUBLISHED, PUBLISHED_DATASET}
    }


def _beside(job_file: Path, named: object) -> Path:
    return job_file.parent / user_path(str(named))


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` takes precedence; mappings in both are merged."""
    both = {
        name: _merged(base[name], value)
        for name, value in over.items()
        if isinstance(value, Mapping) and isinstance(base.get(name), Mapping)
    }
    return {**base, **over, **both}


def _is_ours(name: str, value: Any) -> bool:
    """Whether a field belongs to the job, not to the run file, whose fields are all sections.

    An unknown scalar counts as ours, so that a typo is reported.
    """
    return name in CreateRollout.model_fields or not isinstance(value, Mapping | list)


def _read(job_file: Path, source: Path) -> tuple[PublishedRun, list[dict[str, Any]]]:
    """Return the run file and the rewards that it names."""
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
