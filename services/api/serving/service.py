"""Servings as jobs: finding the one of a model, starting and stopping them."""

import json
import time
from fnmatch import fnmatchcase

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from services.api.jobs.view import state_fields
from services.api.models.service import resolve_for_load
from services.api.settings import ApiSettings
from services.contracts.errors import Conflict, InvalidRequest, PermissionDenied
from services.contracts.jobs import JobKind
from services.contracts.serving import CreateServing, DeployModel, Serving, ServingResult
from services.core.artifacts import Artifacts
from services.core.db.engine import advisory_lock
from services.core.db.tables import JobRow
from services.inference.relay_protocol import keep_warm
from services.jobs.job import Job, NewJob, job_from_row
from services.jobs.queues import SERVE
from services.jobs.store import create_job, request_cancel
from services.jobs.workers import live_workers
from services.models.registry import ResolvedModel
from services.models.servings import deployment, loaded_model, serving_of


def resolve_servable(session: Session, name: str, settings: ApiSettings) -> ResolvedModel:
    """The model that a request names; raises `NotFound`, and `InvalidRequest` for one that
    generates no text."""
    model = resolve_for_load(session, name, settings)
    if model.value_head is not None:
        raise InvalidRequest(f"{name!r} is a reward model, which generates no text", param="model")
    return model


def start_serving(session: Session, model: ResolvedModel, body: DeployModel) -> Job:
    """Queue a serving; raises `Conflict` when no worker has the devices."""
    loaded = loaded_model(session, model)
    request = CreateServing(
        **body.model_dump(),
        model=loaded,
        adapter=model.id if model.id != loaded else None,
    )
    check_devices(session, request.gpus)
    return create_job(session, NewJob.of(JobKind.SERVE, request, request.gpus))


def start_on_request(session: Session, model: ResolvedModel, settings: ApiSettings) -> Job:
    """Queue the serving of a model that a request names.

    It has the options of the last one, unless that was stopped by a person. Raises
    `PermissionDenied` where the operator requires models to be deployed first.
    """
    loaded = loaded_model(session, model)
    last, before = serving_of(session, loaded), deployment(session, loaded)
    is_successor = last is not None and last.result and last.result.get("outgrown")
    is_served = any(fnmatchcase(model.id, pattern) for pattern in settings.served_models)
    if not is_served and not is_successor:
        raise PermissionDenied(
            f"{model.id!r} is not deployed, and TEMPER_SERVED_MODELS lets no request start it",
            code="model_not_deployed",
        )
    options = before.model_dump(exclude={"model", "adapter"}) if before is not None else {}
    return start_serving(session, model, DeployModel(**options))


def check_devices(session: Session, gpus: int | None) -> None:
    """Raise `Conflict` when the live workers can never run such a serving."""
    workers = [row for row in live_workers(session) if SERVE.work in row.queues]
    if not workers:
        return  # one may start
    max_gpus = max(len(row.gpus) for row in workers)
    slots = any(row.cpu_slots for row in workers)
    if gpus is None:
        fits, wanted = bool(max_gpus or slots), "a GPU or a CPU slot"
    elif gpus == 0:
        fits, wanted = slots, "a CPU slot"
    else:
        fits, wanted = max_gpus >= gpus, f"{gpus} GPUs"
    if not fits:
        raise Conflict(f"no worker that serves models has {wanted}", code="no_device_fits")


def deploy_model(session: Session, name: str, body: DeployModel, settings: ApiSettings) -> Job:
    """The serving of a model, queued if there is none.

    Only ``keep_warm`` of an existing one changes; raises `Conflict` for other options than it has.
    """
    model = resolve_servable(session, name, settings)
    lock_serving(session, loaded_model(session, model))
    job = serving_of(session, loaded_model(session, model))
    if job is None or job.status.is_final or job.cancel_requested_at is not None:
        return start_serving(session, model, body)
    _check_same(name, body, CreateServing.model_validate(job.request))
    row = session.scalars(select(JobRow).where(JobRow.id == job.id)).one()
    row.request = {**job.request, "keep_warm": body.keep_warm}
    session.flush()
    keep_warm(Artifacts(settings.home).job(job.id), body.keep_warm)
    return job_from_row(row)


def _check_same(name: str, body: DeployModel, running: CreateServing) -> None:
    """Raise `Conflict` naming the options given that differ from those of a serving that runs."""
    # Clients may send all fields: those that have their defaults do not count as given.
    wanted, usual, has = (
        each.model_dump(mode="json", exclude={"keep_warm"})
        for each in (body, DeployModel(), running)
    )
    parts = [
        ("engine.", wanted.pop("engine"), usual["engine"], has["engine"]),
        ("", wanted, usual, has),
    ]
    differing = [
        (f"{place}{key}", has[key])
        for place, wanted, usual, has in parts
        for key, value in wanted.items()
        if value not in (usual[key], has[key])
    ]
    if differing:
        told = ", ".join(f"{key} is {json.dumps(value)}" for key, value in differing)
        raise Conflict(
            f"{name!r} is deployed with other options: {told}. Undeploy it first, or ask for no "
            "options but keep_warm",
            code="deployed_differently",
            param=differing[0][0],
        )


def undeploy_model(session: Session, name: str, settings: ApiSettings) -> list[Job]:
    """Stop the serving of a model, which all adapters of its base share, and forget its options."""
    loaded = loaded_model(session, resolve_servable(session, name, settings))
    lock_serving(session, loaded)
    job = serving_of(session, loaded)
    if job is None:
        return []
    if job.status.is_final:
        ended = update(JobRow).where(JobRow.id == job.id, JobRow.cancel_requested_at.is_(None))
        session.execute(ended.values(cancel_requested_at=time.time()))
        return []
    return [request_cancel(session, job.id)]


def lock_serving(session: Session, loaded: str) -> None:
    """Keep other transactions from starting or stopping a serving of the same model."""
    advisory_lock(session, f"serving of {loaded}")


def serving_view(job: Job) -> Serving:
    """The wire view of a serving."""
    request = CreateServing.model_validate(job.request)
    return Serving(
        model=request.model,
        keep_warm=request.keep_warm,
        result=ServingResult.model_validate(job.result) if job.result else None,
        **state_fields(job),
    )
