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

from services.contracts.errors import TemperError
from services.core.artifacts import ModelSource
from services.core.process.reporter import Reporter
from services.models.hub_download import Meter
from services.models.hub_errors import reason_of
from services.models.hub_model import PHASE, Told, download_model
from services.trainer.errors import TrainingFailure

COMMITS = "hub_commits.json"


def model_folder(
    model: ModelSource,
    job_dir: Path,
    enter: Callable[[str], None],
    param: str = "model",
    reporter: Reporter | None = None,
) -> Path:
    """The folder of a model; a hub model is downloaded unless it is cached.

    ``enter`` is told the phase, and ``reporter`` how far it is.

    All attempts of a job use the commit that the first one resolved: a checkpoint must not resume
    on different weights because a branch moved.

    Raises TrainingFailure naming the repository and ``param``, the request field, and
    `InvalidRequest` for one with untrusted code.
    """
    if model.path is not None:
        return model.path  # its worker has looked for code
    enter(PHASE)
    hub_id = str(model.hub_id)
    known = _read_commits(job_dir)
    key = f"{hub_id}@{model.revision or 'main'}"
    failure = {"code": "model_load_failed", "param": param}
    with (
        explained(f"model {hub_id!r}", model.revision, **failure),
        Meter(Told(hub_id, reporter)) as meter,
    ):
        folder = download_model(model, known.get(key, model.revision), meter, param)
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


@contextmanager
def explained(what: str, revision: str | None, **failure: Any) -> Iterator[None]:
    """Turn the hub library's exceptions into a TrainingFailure that names ``what``."""
    try:
        yield
    except TemperError:
        raise
    except Exception as error:  # the library lets some of its HTTP client's exceptions through
        raise TrainingFailure(reason_of(error, what, revision), **failure) from error
