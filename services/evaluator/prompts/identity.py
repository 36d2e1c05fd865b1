"""Identity of a run of ``temper batch``: a run with the same identity can resume it."""

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.batches.prompt_batches import PromptBatch
from services.contracts.errors import Conflict

IDENTITY = "identity.json"
LOCK = "lock"


@contextmanager
def claimed(folder: Path, batch: PromptBatch) -> Iterator[None]:
    """The rows folder, for this batch and this process alone.

    Raises Conflict if another process writes to it, or if it holds the rows of another batch; the
    message names what differs.
    """
    with open(folder / LOCK, "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"another temper batch is writing to {folder}") from None
        _check(folder, _identity(batch))
        yield


def _check(folder: Path, identity: JsonObject) -> None:
    path = folder / IDENTITY
    try:
        known = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):  # a kill may tear it, before there is any row
        path.write_text(json.dumps(identity, ensure_ascii=False), encoding="utf-8")
        return
    different = [name for name, value in identity.items() if known.get(name) != value]
    if different:
        raise Conflict(
            f"{folder} holds the rows of another batch ({', '.join(different)} differ); "
            "choose another output, or delete that folder"
        )


def _identity(batch: PromptBatch) -> JsonObject:
    """All that the answers depend on; where they come from and how fast may change."""
    prompting = batch.prompting
    models = {endpoint.model for endpoint in batch.endpoints}
    return {
        "records": _digest(batch.records),
        "delimiter": batch.delimiter,
        "template": _digest(prompting.template),
        "variables": prompting.variables,
        "system message": [prompting.system_text, prompting.template_as_system],
        "body": batch.body,
        "models": [batch.engine.model] if batch.engine else sorted(models),
    }


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
