"""Run files of MindSpeed-RL and verl, as the settings of reinforcement."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.contracts.errors import InvalidRequest
from services.contracts.fine_tuning import MethodType
from services.contracts.published_rewards import published_rewards
from temper.formats.published_rollouts import PublishedRun, read_published
from temper.submission.errors import SubmissionError
from temper.submission.published import PUBLISHED


def with_published_training(path: Path, body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a fine-tuning job, completed by the run file that ``published`` names, beside
    the job file ``path``.

    The method is then reinforcement, and what the job file says of it goes before. Raises
    `SubmissionError`.
    """
    own = {name: value for name, value in body.items() if name != PUBLISHED}
    if PUBLISHED not in body:
        return own
    source = path.parent / Path(str(body[PUBLISHED])).expanduser()
    try:
        run = read_published(source)
        rewards = _rewards(run)
    except InvalidRequest as error:
        raise SubmissionError(f"{path}: {error.message}") from error
    except OSError as error:
        raise SubmissionError(f"{path}: {PUBLISHED}: {source}: {error.strerror}") from error
    given = _mapping(_mapping(own.get("method")).get(MethodType.REINFORCEMENT))
    settings = {
        **({"rewards": rewards} if rewards else {}),
        **given,
        "hyperparameters": {**_hyperparameters(run), **_mapping(given.get("hyperparameters"))},
    }
    method = {"type": MethodType.REINFORCEMENT.value, MethodType.REINFORCEMENT.value: settings}
    return {**own, "method": method}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _rewards(run: PublishedRun) -> list[dict[str, Any]]:
    weights = run.verifier_weights or (1.0,) * len(run.verifier_functions)
    rewards = published_rewards(run.verifier_functions, weights)
    return [reward.model_dump(mode="json") for reward in rewards]


def _hyperparameters(run: PublishedRun) -> dict[str, Any]:
    enabled = run.multi_turn.multi_turn_enable
    fields = {
        "multi_turn": run.multi_turn.model_dump(mode="json"),
        "sampling": run.sampling.model_dump(mode="json"),
        "tools": [tool.model_dump(mode="json") for tool in run.tools] if enabled else [],
        "prompt_type": run.prompt_type,
        "samples_per_prompt": run.samples_per_prompt,
        "max_prompt_length": run.max_prompt_length,
    }
    return {name: value for name, value in fields.items() if value is not None}
