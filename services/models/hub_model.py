"""Hub models: their files, downloaded in an order in which a wrong model fails in seconds."""

import json
from pathlib import Path

from services.contracts.errors import TemperError
from services.core.artifacts import ModelSource
from services.core.process.reporter import Reporter
from services.models.hub_download import Meter, Snapshot, Transfer
from services.models.loadable import HUB_PREFIX, check_code

PHASE = "downloading_model"
_SETTINGS = ("*.json", "*.jinja", "*.model", "*.tiktoken", "*.txt")
_CODE = ("*.py",)
_ANY_WEIGHTS = "*.safetensors"
_WEIGHTS = "model.safetensors"
_WEIGHTS_INDEX = "model.safetensors.index.json"
_USUAL_WEIGHTS = (_WEIGHTS, "model-*-of-*.safetensors")
_TOLD_PERCENT = 10
"""How often a job's events tell how far a download is."""


class WeightsMissing(TemperError):
    """A repository without weights that can be loaded."""

    code = "model_load_failed"


def download_model(
    model: ModelSource, revision: str | None, meter: Meter, param: str = "model"
) -> Path:
    """The folder of a hub model at a revision, downloaded unless it is cached.

    Raises `InvalidRequest` for one with untrusted code, before its weights are fetched,
    `WeightsMissing`, and what the hub's library does.
    """
    hub_id = str(model.hub_id)
    wanted = (*_SETTINGS, *_CODE) if model.trusted else _SETTINGS
    snapshot = Snapshot(hub_id, revision, (*wanted, _ANY_WEIGHTS))
    meter.expect(snapshot.size((*wanted, *_USUAL_WEIGHTS)))
    folder = snapshot.fetch(wanted, meter)
    check_code(
        folder, trusted=model.trusted, name=hub_id, entry=f"{HUB_PREFIX}{hub_id}", param=param
    )
    weights = _weight_files(folder)
    meter.expect(snapshot.size((*wanted, *weights)))
    # By the commit of the settings: the branch may have moved since.
    snapshot.fetch(weights, meter)
    if not all((folder / name).exists() for name in weights):
        at = model.revision or "main"
        message = f"model {hub_id!r} has no weights in safetensors at revision {at!r}"
        raise WeightsMissing(message, param=param)
    return folder


class Told:
    """Reports a download as the state of its job, and every tenth of it as an event."""

    def __init__(self, what: str, reporter: Reporter | None) -> None:
        self._what = what
        self._reporter = reporter
        self._percent = 0

    def __call__(self, now: Transfer) -> None:
        """Report a state."""
        if self._reporter is None or not now.total:
            return
        self._reporter.download(now.done, now.total, now.per_second, now.eta_seconds)
        percent = 100 * now.done // now.total // _TOLD_PERCENT * _TOLD_PERCENT
        if percent > self._percent:
            self._percent = percent
            self._reporter.message(
                f"{self._what}: {percent} % of {_text(now.total)} downloaded",
                bytes=now.done,
                total_bytes=now.total,
                bytes_per_second=now.per_second,
                eta_seconds=now.eta_seconds,
            )


def _text(size: int) -> str:
    """Bytes in the largest unit that leaves a digit before the point."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = min((max(size, 1).bit_length() - 1) // 10, len(units) - 1)
    return f"{size / 1024**power:.3g} {units[power]}"


def _weight_files(folder: Path) -> tuple[str, ...]:
    """The weight files that transformers would load; a repository may have others as well."""
    index = folder / _WEIGHTS_INDEX
    if not index.exists():
        return (_WEIGHTS,)
    shards: dict[str, str] = json.loads(index.read_bytes())["weight_map"]
    return tuple(sorted(set(shards.values())))
