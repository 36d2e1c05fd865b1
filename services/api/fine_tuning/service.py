"""Fine-tuning requests: validation, the job, and its view."""

import secrets
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from services.api.fine_tuning.adapters import with_own_adapter
from services.api.fine_tuning.memory import estimate_memory, located_model
from services.api.fine_tuning.online import check_online, online_warnings, prefixed_param
from services.api.jobs.artifacts import result_file_ids
from services.api.jobs.view import state_fields
from services.api.models.service import require_loadable
from services.api.settings import ApiSettings
from services.contracts.data.files import FilePurpose
from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.jobs import JobKind, JobStatus
from services.contracts.models.registered import HubName
from services.contracts.training.fine_tuning import (
    Checkpoint,
    CreateFineTuningJob,
    FineTuningJob,
    MemoryEstimate,
    Method,
)
from services.contracts.training.offline import (
    OfflineHyperparameters,
    SupervisedHyperparameters,
    SupervisedMethod,
)
from services.contracts.training.optimizer import TrainingType
from services.contracts.training.rows import HUB_DATASET_PREFIX, SCRIPT_PREFIX, ScriptReference
from services.core.db.tables import CheckpointRow, FileRow
from services.jobs.job import Job, NewJob
from services.jobs.store import create_job
from services.models.registry import ResolvedModel, checkpoint_name, require_file
from services.models.tensor_headers import module_names
from services.rewards.check import Permissions, check_reward


def create_fine_tuning_job(
    session: Session, body: CreateFineTuningJob, settings: ApiSettings
) -> Job:
    """Check everything that needs no file content, and queue the job.

    Raises `InvalidRequest` with the field at fault, and `PermissionDenied` for what the
    operator's settings do not allow.
    """
    request = checked_request(session, body, settings)
    memory = estimate_memory(session, request, settings)
    warnings = online_warnings(request)
    new = NewJob.of(JobKind.FINE_TUNING, request, request.gpus, warnings)
    shown = None if memory is None else memory.model_dump()
    return create_job(session, replace(new, memory_estimate=shown))


def checked_request(
    session: Session, body: CreateFineTuningJob, settings: ApiSettings
) -> CreateFineTuningJob:
    """The request with its method, a seed, and the settings of the adapter that it trains further.
    Raises what `create_fine_tuning_job` does, but for the memory."""
    request = _with_method(body)
    require_loadable(session, request.model, settings)
    for param, reference in request.file_references.items():
        _check_file(session, reference, param, settings)
    _check_llamafactory(request)
    _check_reference(session, request, settings)
    check_online(session, request, settings)
    if request.method is None:
        return request
    model = located_model(session, request.model, settings)
    check_targets(request.method, model)
    return request.model_copy(update={"method": with_own_adapter(request.method, model)})


def _with_method(body: CreateFineTuningJob) -> CreateFineTuningJob:
    """Normalize the request: fold top-level hyperparameters into ``method``, choose a seed."""
    if body.hyperparameters is not None and body.method is not None:
        raise InvalidRequest("give it in method or here, not both", param="hyperparameters")
    method = body.method or Method()
    if body.hyperparameters is not None:
        method = Method(supervised=SupervisedMethod(hyperparameters=body.hyperparameters))
    seed = body.seed if body.seed is not None else secrets.randbelow(2**31)
    return body.model_copy(update={"method": method, "hyperparameters": None, "seed": seed})


def _check_file(session: Session, reference: str, param: str, settings: ApiSettings) -> None:
    if reference.startswith(HUB_DATASET_PREFIX):
        _check_hub_dataset(reference, param)
        return
    if reference.startswith(SCRIPT_PREFIX):
        script = ScriptReference.parse(reference, param)  # the worker checks that the file exists
        if settings.dataset_scripts is None:
            message = f"{script} needs the operator's TEMPER_DATASET_SCRIPTS"
            raise PermissionDenied(message, param=param)
        return
    require_training_file(session, reference, param)


def require_training_file(session: Session, file_id: str, param: str) -> FileRow:
    """The row of an uploaded file; raises `InvalidRequest` unless its purpose is training."""
    row = require_file(session, file_id, param)
    if row.purpose != FilePurpose.FINE_TUNE:
        raise InvalidRequest(
            f"{file_id} has purpose {row.purpose!r}, not {FilePurpose.FINE_TUNE.value!r}",
            param=param,
        )
    return row


_HUB_NAME: TypeAdapter[str] = TypeAdapter(HubName)


def _check_hub_dataset(reference: str, param: str) -> None:
    try:
        _HUB_NAME.validate_python(reference.removeprefix(HUB_DATASET_PREFIX))
    except ValidationError:
        message = f"{reference[:100]!r} is not {HUB_DATASET_PREFIX}<owner>/<name>"
        raise InvalidRequest(message, param=param) from None


def _check_llamafactory(request: CreateFineTuningJob) -> None:
    if request.method is not None and request.method.offline is not None:
        _check_grader_of(request.method)
        check_hyperparameters(
            request.method,
            has_validation=request.has_validation,
            validation_names=request.validation_files or (),
        )


def check_hyperparameters(
    method: Method, *, has_validation: bool | None, validation_names: Collection[str] = ()
) -> OfflineHyperparameters:
    """The settings of an offline method; raises `InvalidRequest` for what cannot be accepted."""
    if method.offline is None:
        message = f"{method.type.value} trains online: its rows are prompts"
        raise InvalidRequest(message, param="method.type")
    with prefixed_param(f"method.{method.type.value}.hyperparameters"):
        method.offline.check_library_arguments(
            has_validation=has_validation, validation_names=validation_names
        )
    return method.offline


def _check_grader_of(method: Method) -> None:
    """Check the grader of generated answers, granting it none of the permissions."""
    settings = method.offline
    if isinstance(settings, SupervisedHyperparameters) and settings.generation:
        grader = settings.generation.grader
        if grader is not None:
            with prefixed_param(f"method.{method.type.value}.hyperparameters"):
                check_reward(grader, Permissions((), (), ()), "generation.grader")


def _check_reference(session: Session, request: CreateFineTuningJob, settings: ApiSettings) -> None:
    offline = None if request.method is None else request.method.offline
    if request.method is not None and offline is not None and offline.named_reference:
        param = f"method.{request.method.type.value}.hyperparameters.reference_model"
        require_loadable(session, offline.named_reference, settings, param)


MODULES_SHOWN = 12
_ALL = "all"
_TIED = "lm_head"
"""Not among the tensors where it is the input embedding."""


def check_targets(method: Method, model: ResolvedModel | None) -> None:
    """Raise `InvalidRequest` for a target of LoRA that is not a module of the model.

    It would be left out, or end the job once the model is loaded.

    A target is a full name, or the end of one after a dot, as PEFT reads it. A model whose weights
    are not here is left to the job.
    """
    asked = list(_targets(method))
    if not asked or model is None or model.weights.path is None:
        return
    modules = module_names(model.weights.path)
    if not modules:
        return
    for field, target in asked:
        if not any(name == target or name.endswith(f".{target}") for name in (*modules, _TIED)):
            known = ", ".join(sorted({name.rpartition(".")[2] for name in modules})[:MODULES_SHOWN])
            raise InvalidRequest(
                f"{target[:100]!r} is not a module of {model.id}, which has {known}",
                param=f"method.{method.type.value}.hyperparameters.{field}",
            )


def _targets(method: Method) -> Iterator[tuple[str, str]]:
    """Each target of an adapter, with the field that names it."""
    offline, online = method.offline, method.online
    if offline is not None and offline.training_type is TrainingType.LORA:
        for target in offline.lora.target_modules or ():
            yield "lora.target_modules", target
        for field in ("lora_target", "additional_target"):
            for target in str(offline.llamafactory.get(field) or "").split(","):
                if target.strip() not in ("", _ALL):
                    yield f"llamafactory.{field}", target.strip()
    if online is not None and online.hyperparameters.optimizer.training_type is TrainingType.LORA:
        for target in online.hyperparameters.optimizer.lora.target_modules or ():
            yield "optimizer.lora.target_modules", target


_OPENAI_NAMES = ("n_epochs", "batch_size", "learning_rate_multiplier")
_OPENAI_METRICS = {"loss": "train_loss", "eval_loss": "valid_loss"}


def fine_tuning_view(job: Job) -> FineTuningJob:
    """The wire view of a fine-tuning job, as OpenAI's."""
    request = CreateFineTuningJob.model_validate(job.request)
    method: dict[str, Any] = request.method.resolved() if request.method else {}
    chosen = method.get(str(method.get("type")), {})
    hyperparameters = chosen.get("hyperparameters", {})
    result = job.result or {}
    finish = int(time.time() + job.eta_seconds) if job.eta_seconds is not None else None
    return FineTuningJob(
        model=request.model,
        training_file=request.training_file,
        training_files=request.training_files,
        mixing=request.mixing,
        validation_file=request.validation_file,
        validation_files=request.validation_files,
        suffix=request.suffix,
        integrations=request.integrations,
        seed=request.seed or 0,
        method=method,
        hyperparameters={name: hyperparameters.get(name) for name in _OPENAI_NAMES},
        fine_tuned_model=result.get("fine_tuned_model"),
        trained_tokens=result.get("trained_tokens"),
        training_rows=result.get("training_rows"),
        validation_rows=result.get("validation_rows"),
        result_files=result_file_ids(job.id) if job.status is JobStatus.SUCCEEDED else [],
        train_seconds=result.get("train_seconds"),
        estimated_finish=finish,
        memory_estimate=_memory(job),
        **state_fields(job),
    )


def _memory(job: Job) -> MemoryEstimate | None:
    estimate = job.memory_estimate
    return None if estimate is None else MemoryEstimate.model_validate(estimate)


def checkpoint_view(row: CheckpointRow) -> Checkpoint:
    """The wire view of a checkpoint, as OpenAI's."""
    return Checkpoint(
        id=row.id,
        created_at=int(row.created_at),
        fine_tuned_model_checkpoint=checkpoint_name(row.job_id, row.step),
        fine_tuning_job_id=row.job_id,
        metrics={
            _OPENAI_METRICS.get(name, name): float(value)
            for name, value in row.metrics.items()
            if isinstance(value, int | float)
        },
        step_number=row.step,
    )
