"""Where stored things are: artifacts on disk, and the sources of data and weights.

Every name below the root is chosen by Temper, never by a client. Runtimes import this module too:
it needs nothing but pydantic.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from services.contracts.errors import InvalidRequest
from services.contracts.validation import AtField


@dataclass(frozen=True)
class Artifacts:
    """Paths of stored files and of job folders below one root."""

    root: Path

    def file(self, file_id: str) -> Path:
        """The content of an uploaded file."""
        return self.root / "files" / file_id

    def job(self, job_id: str) -> Path:
        """The folder of a job: its specification, reports, log, checkpoints and results."""
        return self.root / "jobs" / job_id

    def workers(self) -> Path:
        """What workers record about themselves for others of their host."""
        return self.root / "workers"

    def uploads(self) -> Path:
        """Incomplete uploads; on the same file system as the files."""
        return self.root / "uploads"

    def file_mark(self, file_id: str) -> Path:
        """Exists while it is not known whether a content that is in place has got its row."""
        return self.root / "file-marks" / file_id

    def parts(self) -> Path:
        """Uploads in parts, a folder each; on the same file system as the files."""
        return self.root / "upload-parts"


class SourceFile(BaseModel):
    """An uploaded file: the path of its content, and the name that the client gave it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    path: Path
    filename: str = Field(min_length=1)


class ModelSource(BaseModel):
    """Model weights: a folder of this host, or a hub repository at a revision.

    ``tokenizer`` is a folder whose tokenizer replaces the one beside the weights. The model's own
    code may run where the operator has ``trusted`` it.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    path: Path | None = None
    hub_id: str | None = None
    revision: str | None = None
    tokenizer: Path | None = None
    trusted: bool = False

    @model_validator(mode="after")
    def _one_location(self) -> Self:
        if (self.path is None) == (self.hub_id is None):
            raise AtField("path", "give exactly one of path and hub_id")
        return self

    @property
    def location(self) -> str:
        """The folder's path or the repository's name."""
        return str(self.path or self.hub_id)


class LoraAdapter(NamedTuple):
    """An adapter over a served model: the name it answers to, and its folder."""

    name: str
    path: Path


STOP_TOKENS = "stop_token_ids.json"
"""In a training's output folder: the stop tokens, for its checkpoints."""
ADAPTER_CONFIG = "adapter_config.json"
VALUE_HEAD = "value_head.safetensors"
"""What the training of a reward model leaves beside the language model."""


@dataclass(frozen=True)
class ServingNeeds:
    """What an engine must know to serve a trained model as it was trained."""

    stop_token_ids: tuple[int, ...] = ()
    needs_merge: bool = False


def adapter_needs_merge(folder: Path) -> bool:
    """Whether an adapter trains more than the LoRA matrices that engines apply, or fits weights
    that PEFT changes as it loads it."""
    path = folder / ADAPTER_CONFIG
    settings = json.loads(path.read_bytes()) if path.exists() else {}
    first = str(settings.get("init_lora_weights")).lower()
    return bool(
        settings.get("modules_to_save")
        or settings.get("use_dora")
        or first.startswith(("pissa", "olora"))
    )


class _AdapterConfig(BaseModel):
    r: int
    rank_pattern: dict[str, int] = {}


def adapter_rank(folder: Path) -> int:
    """The largest rank in an adapter; raises `InvalidRequest` where there is none."""
    path = folder / ADAPTER_CONFIG
    try:
        config = _AdapterConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidRequest(
            f"{folder} is not a LoRA adapter: {error.strerror}: {path}", param="model"
        ) from error
    except ValidationError as error:
        raise InvalidRequest(f"{path} does not describe a LoRA adapter", param="model") from error
    return max([config.r, *config.rank_pattern.values()])


def write_stop_tokens(output_dir: Path, stop_token_ids: list[int]) -> None:
    """Store the stop tokens of a training for its checkpoints."""
    output_dir.mkdir(parents=True, exist_ok=True)
    (output_dir / STOP_TOKENS).write_text(json.dumps(stop_token_ids))


def read_serving_needs(folder: Path, job_dir: Path) -> ServingNeeds:
    """What serving the checkpoint in ``folder`` needs, from the files of its job."""
    kept = [parent / STOP_TOKENS for parent in folder.parents if parent.is_relative_to(job_dir)]
    path = next((path for path in kept if path.exists()), None)
    stop_token_ids = json.loads(path.read_bytes()) if path is not None else []
    return ServingNeeds(tuple(stop_token_ids), adapter_needs_merge(folder))
