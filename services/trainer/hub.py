"""Hub models: downloaded before slow work, so that a wrong name fails in seconds.

Training itself gets a folder: given a name, PEFT would compare the vocabulary with that of the
newest revision instead of the trained one, and store embeddings that make an adapter unservable.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download

from services.core.artifacts import ModelSource
from services.models.hub_errors import reason_of
from services.models.model_code import HUB_PREFIX, check_code
from services.trainer.errors import TrainingFailure

COMMITS = "hub_commits.json"
_SETTINGS = ("*.json", "*.jinja", "*.model", "*.tiktoken", "*.txt")
_CODE = ("*.py",)
_SUBFOLDERS = "*/*"
_WEIGHTS = "model.safetensors"
_WEIGHTS_INDEX = "model.safetensors.index.json"


def model_folder(
    model: ModelSource, job_dir: Path, enter: Callable[[str], None], param: str = "model"
) -> Path:
    """The folder of a model; a hub model is downloaded unless it is cached.

    All attempts of a job use the commit that the first one resolved: a checkpoint must not resume
    on different weights because a branch moved.

    Raises TrainingFailure naming the repository and ``param``, the request field, and
    `InvalidRequest` for one with untrusted code.
    """
    if model.path is not None:
        return model.path  # its worker has looked for code
    enter("downloading_model")
    hub_id = str(model.hub_id)
    entry = f"{HUB_PREFIX}{hub_id}"
    what = f"model {hub_id!r}"
    known = _read_commits(job_dir)
    key = f"{hub_id}@{model.revision or 'main'}"
    with explained(what, model.revision, code="model_load_failed", param=param):
        wanted = (*_SETTINGS, *_CODE) if model.trusted else _SETTINGS
        folder = _download(hub_id, known.get(key, model.revision), wanted)
    check_code(folder, trusted=model.trusted, name=hub_id, entry=entry, param=param)
    with explained(what, model.revision, code="model_load_failed", param=param):
        weights = _weight_files(folder)
        # By commit: the branch may have moved since.
        _download(hub_id, folder.name, weights)
    if not all((folder / name).exists() for name in weights):
        message = f"{what} has no weights in safetensors at revision {model.revision or 'main'!r}"
        raise TrainingFailure(message, code="model_load_failed", param=param)
    if key not in known:
        _write_commits(job_dir, {**known, key: folder.name})
    return folder


def _read_commits(job_dir: Path) -> dict[str, str]:
    try:
        commits: dict[str, str] = json.loads((job_dir / COMMITS).read_bytes())
    except FileNotFoundError:
        return {}
    return commits


def _write_commits(job_dir: Path, commits: dict[str, str]) -> None:
    """Write atomically; several processes write the same content."""
    partial = job_dir / f"{COMMITS}.{os.getpid()}"
    partial.write_text(json.dumps(commits))
    partial.replace(job_dir / COMMITS)


def _download(hub_id: str, revision: str | None, names: tuple[str, ...]) -> Path:
    folder = snapshot_download(
        hub_id, revision=revision, allow_patterns=list(names), ignore_patterns=_SUBFOLDERS
    )
    return Path(folder)


def _weight_files(folder: Path) -> tuple[str, ...]:
    """The weight files that transformers would load; a repository may have others as well."""
    index = folder / _WEIGHTS_INDEX
    if not index.exists():
        return (_WEIGHTS,)
    shards: dict[str, str] = json.loads(index.read_bytes())["weight_map"]
    return tuple(sorted(set(shards.values())))


@contextmanager
def explained(what: str, revision: str | None, **failure: Any) -> Iterator[None]:
    """Turn the hub library's exceptions into a TrainingFailure that names ``what``."""
    try:
        yield
    except Exception as error:  # the library lets some of its HTTP client's exceptions through
        raise TrainingFailure(reason_of(error, what, revision), **failure) from error
