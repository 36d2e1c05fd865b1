"""Resolves the name of a model to the relay that serves it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.orm import Session

from services.api.serving.service import (
    check_devices,
    lock_serving,
    resolve_servable,
    start_on_request,
)
from services.api.settings import ApiSettings
from services.contracts.errors import Conflict, InvalidRequest, NotFound
from services.contracts.jobs import JobKind, JobStatus
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.inference.relay_protocol import (
    EMBEDDINGS,
    RelayEndpoint,
    ServedAdapter,
    read_endpoint,
)
from services.jobs.job import Job
from services.jobs.store import get_job
from services.models.embedding_models import computes_embeddings
from services.models.registry import ResolvedModel
from services.models.servings import loaded_model, serving_of

POLICY_PREFIX = "run:"
"""``run:JOB`` names the policy that a running online training samples with."""
FAILURE_SECONDS = 30.0
"""How long requests get the failure of a serving before one starts another."""


@dataclass(frozen=True)
class Route:
    """The relay for requests to a model, and what is added to them."""

    model: str
    endpoint: RelayEndpoint
    adapter: ServedAdapter | None
    stop_token_ids: tuple[int, ...]
    embeds: bool | None = False

    def check(self, path: str) -> None:
        """Raise `InvalidRequest` if the model does not support ``path``."""
        check_task(self.model, self.embeds, path)


@dataclass(frozen=True)
class Pending:
    """Why the engine of a model is not ready yet."""

    reason: str


class ServingFailed(Conflict):
    """The engine of a model could not be started; another attempt would fail the same way."""

    code = "serving_failed"


class Servings:
    """Finds the serving of a model, or starts one. Calls block; ``nudge`` wakes the dispatcher."""

    def __init__(
        self, database: Database, settings: ApiSettings, nudge: Callable[[], None]
    ) -> None:
        self._database = database
        self._settings = settings
        self._artifacts = Artifacts(settings.home)
        self._nudge = nudge

    def find_or_start(self, name: str, path: str) -> Route | Pending:
        """The route to a model; its serving is started if there is none.

        Raises `NotFound`, `InvalidRequest`, `PermissionDenied`, and `Conflict` where waiting would
        be futile.
        """
        with self._database.read() as session:
            if name.startswith(POLICY_PREFIX):
                check_task(name, False, path)
                return self._policy_route(session, name)
            model = resolve_servable(session, name, self._settings)
            check_task(name, computes_embeddings(model.weights.path), path)
            found = self._model_route(session, model)
        if found is not None:
            return found
        with self._database.write() as session:
            lock_serving(session, loaded_model(session, model))
            found = self._model_route(session, model)
            if found is None:
                start_on_request(session, model, self._settings)
        self._nudge()
        return found or Pending("its engine is being started")

    def _policy_route(self, session: Session, name: str) -> Route | Pending:
        """The route to the policy of an online training; nothing is started for it."""
        job_id = name.removeprefix(POLICY_PREFIX)
        try:
            job = get_job(session, job_id, JobKind.FINE_TUNING)
        except NotFound:
            raise NotFound(
                f"no training {job_id!r}", param="model", code="model_not_found"
            ) from None
        request = CreateFineTuningJob.model_validate(job.request)
        if request.method is None or request.method.online is None:
            message = f"{job.id} is not an online training: it has no policy to query"
            raise InvalidRequest(message, param="model")
        if job.status.is_final:
            trained = (job.result or {}).get("fine_tuned_model")
            message = f"the training {job.id} has {job.status}"
            message += f"; its model is {trained!r}" if trained else ""
            raise Conflict(message, code="training_ended", param="model")
        if job.status is JobStatus.PAUSED:
            raise Conflict(f"the training {job.id} is paused; resume it", code="training_paused")
        if job.status is not JobStatus.RUNNING:
            return Pending(job.queue_reason or "its training is waiting for a worker")
        endpoint = read_endpoint(self._artifacts.job(job.id), job.epoch)
        if endpoint is None:
            return Pending(f"its training is starting ({job.phase or 'starting'})")
        base = resolve_servable(session, request.model, self._settings)
        return Route(name, endpoint, None, base.stop_token_ids)

    def _model_route(self, session: Session, model: ResolvedModel) -> Route | Pending | None:
        """The route of the model's serving; None when one must be started."""
        loaded = loaded_model(session, model)
        job = serving_of(session, loaded)
        if job is None:
            return None
        if job.status.is_final:
            _check_failure(model, job)
            return None
        if job.cancel_requested_at is not None:
            return Pending("its engine is stopping on request")
        if job.status is JobStatus.PAUSED:
            raise Conflict(
                f"the serving {job.id} of {model.id!r} is paused; resume it", code="serving_paused"
            )
        if job.status is not JobStatus.RUNNING:
            check_devices(session, job.gpus)
            return Pending(job.queue_reason or "its engine is waiting for a worker")
        endpoint = read_endpoint(self._artifacts.job(job.id), job.epoch)
        if endpoint is None:
            return Pending(f"its engine is starting ({job.phase or 'starting'})")
        return _route(model, loaded, endpoint)


def _check_failure(model: ResolvedModel, job: Job) -> None:
    """Raise `ServingFailed` when the last serving failed recently."""
    recent = job.finished_at is not None and time.time() - job.finished_at < FAILURE_SECONDS
    if job.status is JobStatus.FAILED and job.error is not None and recent:
        raise ServingFailed(
            f"{model.id!r} could not be served: {job.error.message} (job {job.id})",
            code=job.error.code,
            param="model",
        )


def _route(model: ResolvedModel, loaded: str, endpoint: RelayEndpoint) -> Route:
    adapter = None
    if model.adapter is not None and loaded != model.id:
        adapter = ServedAdapter(name=model.id, path=model.adapter)
    embeds = computes_embeddings(model.weights.path)
    return Route(model.id, endpoint, adapter, model.stop_token_ids, embeds)


def check_task(name: str, embeds: bool | None, path: str) -> None:
    """Raise `InvalidRequest` for text generation by an embedding model, and vice versa.

    ``embeds`` is None where only the engine knows.
    """
    if embeds is False and path == EMBEDDINGS:
        message = f"{name!r} generates text; it computes no embeddings"
        raise InvalidRequest(message, param="model", code="not_an_embedding_model")
    if embeds and path != EMBEDDINGS:
        message = f"{name!r} computes embeddings (POST {EMBEDDINGS}); it generates no text"
        raise InvalidRequest(message, param="model", code="not_a_text_model")
