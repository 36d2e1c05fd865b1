"""What requests name: registered models, checkpoints as models, and uploaded files."""

import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.models.registered import Lineage, ModelKind
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.contracts.training.optimizer import TrainingType
from services.core.artifacts import (
    VALUE_HEAD,
    Artifacts,
    ModelSource,
    ServingNeeds,
    SourceFile,
    adapter_needs_merge,
    read_serving_needs,
)
from services.core.db.tables import CheckpointRow, FileRow, JobRow, ModelRow
from services.models.loadable import HUB_PREFIX, check_code, check_readable
from services.models.tokenizer_ids.files import TOKENIZER
from services.models.tokenizer_ids.prepared import speaks_as


@dataclass(frozen=True)
class ResolvedModel:
    """A model ready to load: full weights and optionally an adapter over them.

    ``base`` is the name of the full weights; it equals ``id`` without an adapter.
    ``weights.tokenizer`` is the adapter's folder where it has a tokenizer: what it was trained
    with. ``stop_token_ids`` end a response, in addition to those in the model's configuration.
    """

    id: str
    base: str
    weights: ModelSource
    adapter: Path | None = None
    stop_token_ids: tuple[int, ...] = ()
    needs_merge: bool = False

    @property
    def value_head(self) -> Path | None:
        """The folder of a reward model that is not a classifier yet: a checkpoint."""
        folder = self.adapter or self.weights.path
        return folder if folder is not None and (folder / VALUE_HEAD).is_file() else None

    @property
    def tokenizer_folder(self) -> Path | None:
        """The folder with its tokenizer and chat template; None while they are on a hub."""
        return self.weights.tokenizer or self.weights.path

    @property
    def tokenizer_file(self) -> Path | None:
        """The tokenizer that counts its tokens; None while it is on a hub."""
        folder = self.tokenizer_folder
        path = folder / TOKENIZER if folder is not None else None
        return path if path is not None and path.is_file() else None

    @property
    def needs_own_engine(self) -> bool:
        """Whether an adapter cannot share an engine with its base and others: it must be merged, or
        its tokenizer or chat template is not the base's."""
        if self.needs_merge or self.weights.tokenizer is None:
            return self.needs_merge
        base = self.weights.path or _cached_tokenizer(self.weights)
        return base is None or not speaks_as(self.weights.tokenizer, base)

    @property
    def without_tokenizer(self) -> str:
        """Why there is no `tokenizer_file`."""
        if self.tokenizer_folder is None:
            return f"{self.id!r} is on a hub: its tokenizer is not here"
        return f"{self.id!r} has no tokenizer.json"


def _cached_tokenizer(source: ModelSource) -> Path | None:
    """The folder with the tokenizer of a hub model; None unless this host has downloaded it."""
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - takes long, rarely needed

    found = try_to_load_from_cache(str(source.hub_id), TOKENIZER, revision=source.revision)
    return Path(found).parent if isinstance(found, str) else None


def get_model_row(session: Session, model_id: str, param: str | None = None) -> ModelRow:
    """Return a model's row, or raise `NotFound`. Checkpoints of jobs are models too."""
    row = session.scalar(select(ModelRow).where(ModelRow.id == model_id))
    row = row or find_checkpoint(session, model_id)
    if row is None:
        raise NotFound(
            f"no model {model_id!r}; register it with POST /v1/models",
            param=param or "model",
            code="model_not_found",
        )
    return row


def resolve_model(
    session: Session,
    model_id: str,
    model_root: Path,
    artifacts: Artifacts,
    trusted: Collection[str] = (),
) -> ResolvedModel:
    """Resolve the name of a model that will be loaded; ``trusted`` is the operator's setting.

    Raises `NotFound` for an unknown name, and `InvalidRequest` when its folder is gone or holds
    code that may not run.
    """
    model = locate_model(session, model_id, model_root, artifacts, trusted)
    for name, folder in ((model.base, model.weights.path), (model.id, model.adapter)):
        if folder is None:
            continue
        row = get_model_row(session, name)
        check_code(
            folder,
            trusted=_is_trusted(session, row, trusted),
            name=name,
            entry=_trusted_entry(session, row),
        )
    return model


def locate_model(
    session: Session,
    model_id: str,
    model_root: Path,
    artifacts: Artifacts,
    trusted: Collection[str] = (),
) -> ResolvedModel:
    """The same for a model whose files are read or copied, but which is not loaded."""
    row = get_model_row(session, model_id)
    if row.kind == ModelKind.GGUF:
        raise InvalidRequest(
            f"model {model_id!r} is a GGUF file: convert it with POST /v1/models/{model_id}/merge",
            param="model",
            code="model_is_gguf",
        )
    weights = _weights(session, row, model_root, artifacts, trusted)
    serving = _serving_needs(row, weights, artifacts)
    if row.kind != ModelKind.ADAPTER:
        return ResolvedModel(row.id, row.id, weights, stop_token_ids=serving.stop_token_ids)
    if row.base is None:
        raise InvalidRequest(f"adapter {model_id!r} has no base model", param="model")
    base = get_model_row(session, row.base)
    if base.kind == ModelKind.ADAPTER:
        raise InvalidRequest(f"the base of {model_id!r} is itself an adapter", param="model")
    return ResolvedModel(
        id=row.id,
        base=base.id,
        weights=_with_tokenizer(
            _weights(session, base, model_root, artifacts, trusted), weights.path
        ),
        adapter=weights.path,
        stop_token_ids=serving.stop_token_ids,
        needs_merge=serving.needs_merge,
    )


def gguf_file(session: Session, model_id: str, model_root: Path) -> Path | None:
    """The file of a model that is registered as GGUF; None for other models.

    Raises `NotFound` for an unknown name and `InvalidRequest` when the file is gone.
    """
    row = get_model_row(session, model_id)
    if row.kind != ModelKind.GGUF:
        return None
    path = model_root / str(row.folder)
    check_readable(path.parent, row.id, param="model")
    if not path.is_file():
        raise InvalidRequest(f"the GGUF file of model {row.id!r} is gone", param="model")
    return path


def _serving_needs(row: ModelRow, weights: ModelSource, artifacts: Artifacts) -> ServingNeeds:
    """From the lineage of a trained model, or from the files of a checkpoint or a folder."""
    if row.lineage:
        lineage = Lineage.model_validate(row.lineage)
        return ServingNeeds(tuple(lineage.stop_token_ids), lineage.needs_merge)
    if weights.path is None:
        return ServingNeeds()
    if row.job_id is None:
        return ServingNeeds(needs_merge=adapter_needs_merge(weights.path))
    return read_serving_needs(weights.path, artifacts.job(row.job_id))


def _weights(
    session: Session,
    row: ModelRow,
    model_root: Path,
    artifacts: Artifacts,
    trusted: Collection[str],
) -> ModelSource:
    may_run = _is_trusted(session, row, trusted)
    if row.hub_id is not None:
        return ModelSource(hub_id=row.hub_id, revision=row.revision, trusted=may_run)
    if row.folder is not None:
        path = model_root / row.folder
    else:
        path = artifacts.job(str(row.job_id)) / str(row.job_path)
    check_readable(path, row.id, param="model")
    if not path.is_dir():
        raise InvalidRequest(f"the folder of model {row.id!r} is gone", param="model")
    return ModelSource(path=path, trusted=may_run)


def _with_tokenizer(base: ModelSource, adapter: Path | None) -> ModelSource:
    """The base with the tokenizer and chat template that an adapter was trained with, its own."""
    if adapter is None or not (adapter / TOKENIZER).is_file():
        return base
    return base.model_copy(update={"tokenizer": adapter})


def _is_trusted(session: Session, row: ModelRow, trusted: Collection[str]) -> bool:
    """By its place, not by its name, which clients choose and may give to another model."""
    if not trusted:
        return False
    source = _registered_source(session, row)
    if source is None:
        return False
    if source.folder is not None:
        return source.folder in trusted
    repository = f"{HUB_PREFIX}{source.hub_id}"
    return repository in trusted or f"{repository}@{source.revision or 'main'}" in trusted


def _trusted_entry(session: Session, row: ModelRow) -> str:
    """What the operator's setting would have to name for a model's code to run."""
    source = _registered_source(session, row)
    if source is None:
        return row.id
    return source.folder or f"{HUB_PREFIX}{source.hub_id}"


LONGEST_CHAIN = 100


def _registered_source(session: Session, row: ModelRow) -> ModelRow | None:
    """The registered model from which a trained model has its code; None if it was deleted."""
    for _ in range(LONGEST_CHAIN):
        if row.job_id is None:
            return row
        parent = parent_of(session, row)
        if parent is None:
            return None
        row = parent
    return None


def parent_of(session: Session, row: ModelRow) -> ModelRow | None:
    """What a trained model or a checkpoint was made from; None if it was deleted, and for a model
    that was registered."""
    if row.lineage:
        name = Lineage.model_validate(row.lineage).parent
    elif (job := _job_of(session, row)) is not None:
        name = str(job.request["model"])
    else:
        return None
    return _named(session, name)


def _named(session: Session, name: str) -> ModelRow | None:
    """A model or a checkpoint, also one that its job has replaced since: what was made from it
    still has its base and its code."""
    found = session.scalar(select(ModelRow).where(ModelRow.id == name))
    return found or _checkpoint_row(session, name)


def _job_of(session: Session, row: ModelRow) -> JobRow | None:
    return session.scalar(select(JobRow).where(JobRow.id == row.job_id)) if row.job_id else None


@dataclass(frozen=True)
class TrainedModel:
    """A trained model to register; ``path`` is relative to the job's folder."""

    id: str
    kind: ModelKind
    base: str | None
    path: str
    lineage: Lineage


def register_trained(session: Session, model: TrainedModel) -> None:
    """Register the model that a job trained."""
    session.add(
        ModelRow(
            id=model.id,
            kind=model.kind.value,
            base=model.base,
            job_id=model.lineage.job_id,
            job_path=model.path,
            lineage=model.lineage.model_dump(mode="json"),
            created_at=time.time(),
        )
    )
    session.flush()


def trained_model_name(parent: str, suffix: str | None, job_id: str) -> str:
    """OpenAI's form, ft:<base>:<organization>:<suffix>:<id>, with the first base of a chain."""
    base = parent.removeprefix("ft:").rsplit(":", 3)[0] if parent.startswith("ft:") else parent
    return f"ft:{base}:temper:{suffix or ''}:{job_id.rpartition('-')[2][:8]}"


_NAME = re.compile(r"(?P<job>ftjob-[0-9a-f]{24}):step-(?P<step>[0-9]{1,9})")
_RESERVED = re.compile(r"ft:.*|run:.*|ftjob-[0-9a-f]{24}(:.*)?", re.DOTALL)


def is_reserved_name(name: str) -> bool:
    """Whether only jobs may give a model this name: trained models and checkpoints."""
    return _RESERVED.fullmatch(name) is not None


def checkpoint_name(job_id: str, step: int) -> str:
    """The model name of a checkpoint."""
    return f"{job_id}:step-{step}"


def find_checkpoint(session: Session, name: str) -> ModelRow | None:
    """A checkpoint as a model, in a row without a session; None when none has this name.

    Its folder disappears when the job replaces it with later checkpoints.
    """
    row = _checkpoint_row(session, name)
    return row if row is not None and row.job_path is not None else None


def _checkpoint_row(session: Session, name: str) -> ModelRow | None:
    """The same, without a path for a checkpoint that its job has replaced."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    row = session.get(CheckpointRow, (match["job"], int(match["step"])))
    job = session.scalar(select(JobRow).where(JobRow.id == match["job"]))
    if job is None:
        return None
    request = CreateFineTuningJob.model_validate(job.request)
    is_adapter = request.method and request.method.training_type is TrainingType.LORA
    parent = _named(session, request.model)
    base = (parent.base if parent is not None else None) or request.model
    return ModelRow(
        id=name,
        kind=(ModelKind.ADAPTER if is_adapter else ModelKind.FULL).value,
        base=base if is_adapter else None,
        job_id=job.id,
        job_path=row.path if row is not None else None,
        created_at=row.created_at if row is not None else job.created_at,
    )


def adapters_of(session: Session, base: str) -> set[str]:
    """The names of the registered adapters over a model."""
    kind = ModelKind.ADAPTER.value
    query = select(ModelRow.id).where(ModelRow.base == base, ModelRow.kind == kind)
    return set(session.scalars(query))


def require_model(session: Session, name: str, param: str = "model") -> ModelRow:
    """The row of a model that a request names in ``param``; raises `InvalidRequest` if missing."""
    try:
        return get_model_row(session, name)
    except NotFound as error:
        raise InvalidRequest(error.message, param=param, code=error.code) from None


def get_file_row(session: Session, file_id: str, param: str = "file_id") -> FileRow:
    """Return a file's row, or raise `NotFound`."""
    row = session.scalar(select(FileRow).where(FileRow.id == file_id))
    if row is None:
        raise NotFound(f"no file {file_id[:80]!r}", param=param, code="file_not_found")
    return row


def require_file(session: Session, file_id: str, param: str = "file") -> FileRow:
    """The row of a file that a request names in ``param``; raises `InvalidRequest` if missing."""
    try:
        return get_file_row(session, file_id)
    except NotFound as error:
        raise InvalidRequest(error.message, param=param, code=error.code) from None


def source_of(row: FileRow, artifacts: Artifacts) -> SourceFile:
    """Where the content of a file is."""
    return SourceFile(path=artifacts.file(row.id), filename=row.filename)


def get_source_file(
    session: Session, artifacts: Artifacts, file_id: str, param: str = "file"
) -> SourceFile:
    """Where the content of a file is; raises `InvalidRequest` when the file was deleted."""
    return source_of(require_file(session, file_id, param), artifacts)
