"""Routes common to all kinds of jobs: create, list, show, cancel, pause, resume, retry, events,
delete."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Self, TypeVar

from fastapi import APIRouter, Body
from fastapi.openapi.models import Example
from sqlalchemy.orm import Session

from services.api.context import Gateway
from services.api.idempotency import Creation, Creator, NoBody
from services.api.jobs.events import EVENTS_RESPONSES, Events, EventsResponse
from services.api.jobs.metadata_filter import MetadataFilter
from services.api.jobs.removal import remove_folder, remove_job
from services.api.settings import ApiSettings
from services.contracts.base import DEFAULT_LIMIT, Deleted, Page
from services.contracts.batches.batches import Batch
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    TemperError,
)
from services.contracts.jobs import Event, JobState, JobStatus
from services.contracts.kinds import kind_of
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of
from services.jobs.job import Job
from services.jobs.pause import request_pause, resume_job
from services.jobs.store import JobFilter, get_job, list_jobs, request_cancel, retry_job

View = TypeVar("View", bound=JobState | Batch)


def kind_router(kind: str) -> APIRouter:
    """A router for the jobs of one kind, at the path of its description."""
    described = kind_of(kind)
    return APIRouter(
        prefix=described.path,
        tags=[described.tag],
        responses=documented_errors(AuthenticationFailed),
    )


def add_create_route(
    router: APIRouter,
    kind: str,
    queue_job: Callable[[Session, Any, ApiSettings], Job],
    view: Callable[[Job], View],
    *,
    summary: str,
    description: str,
    examples: Mapping[str, Example],
    errors: tuple[type[TemperError], ...] = (InvalidRequest, Conflict),
) -> None:
    """Add the route that creates a job of a kind. ``queue_job`` checks the request, raising one of
    ``errors``, and queues the job; everything happens in one transaction."""
    described = kind_of(kind)
    request, resource = described.request, described.resource

    @router.post(
        "",
        summary=summary,
        description=description,
        response_model=resource,
        responses=documented_errors(*errors),
    )
    def create(
        gateway: Gateway,
        creation: Creation,
        body: Annotated[request, Body(openapi_examples=dict(examples))],  # type: ignore[valid-type]  # FastAPI reads the type at run time
    ) -> Any:
        return creation.create(
            described.path.removeprefix("/v1/"),
            body,
            resource,
            lambda session: view(queue_job(session, body, gateway.settings)),
        )


@dataclass(frozen=True)
class KindRoutes(Generic[View]):
    """Routes of the jobs of one kind, or of any kind where ``kind`` is None.

    ``view`` converts a job to its response, of type ``shown_as``; summaries use ``noun``.
    """

    kind: str | None
    noun: str
    shown_as: type[View]
    view: Callable[[Job], View]

    @classmethod
    def of(cls, kind: str, view: Callable[[Job], View]) -> Self:
        """The routes of a kind, from its description."""
        described = kind_of(kind)
        return cls(kind, described.noun, described.resource, view)

    def add_to(self, router: APIRouter) -> None:
        """Add all routes to the router; jobs of other kinds are not found by them."""
        self._add_list(router)
        self._add_show(router)
        self.add_actions_to(router)

    def add_actions_to(self, router: APIRouter) -> None:
        """Add all routes but list and show."""
        self._add_cancel(router)
        self._add_pause(router)
        self._add_retry(router)
        self._add_events(router)
        self._add_delete(router)

    @property
    def _one(self) -> str:
        return f"{'an' if self.noun[0] in 'aeio' else 'a'} {self.noun}"

    @property
    def _many(self) -> str:
        return f"{self.noun}{'es' if self.noun.endswith('ch') else 's'}"

    def _add_list(self, router: APIRouter) -> None:
        @router.get(
            "",
            summary=f"List {self._many}",
            response_model=Page[self.shown_as],  # type: ignore[name-defined]  # FastAPI reads the type at run time
            responses=documented_errors(InvalidRequest),
        )
        def list_all(
            gateway: Gateway,
            _principal: Principal,
            metadata: MetadataFilter,
            status: JobStatus | None = None,
            after: After = None,
            limit: Limit = DEFAULT_LIMIT,
        ) -> Page[View]:
            """List jobs, newest first."""
            where = JobFilter(self.kind, status, metadata)
            with gateway.database.read() as session:
                jobs, has_more = list_jobs(session, where, after, limit)
            return page_of([self.view(job) for job in jobs], has_more)

    def _add_show(self, router: APIRouter) -> None:
        @router.get(
            "/{job_id}",
            summary=f"Show {self._one}",
            response_model=self.shown_as,
            responses=documented_errors(NotFound),
        )
        def get(gateway: Gateway, _principal: Principal, job_id: str) -> View:
            """Show one job."""
            with gateway.database.read() as session:
                return self.view(get_job(session, job_id, self.kind))

    def _add_cancel(self, router: APIRouter) -> None:
        @router.post(
            "/{job_id}/cancel",
            summary=f"Cancel {self._one}",
            response_model=self.shown_as,
            responses=documented_errors(NotFound, Conflict),
        )
        def cancel(creation: Creation, job_id: str) -> View:
            """Cancel a waiting job immediately, or signal the worker of a running one to stop."""
            return self._once(creation, f"{job_id}/cancel", job_id, request_cancel)

    def _once(
        self,
        creation: Creator,
        action: str,
        job_id: str,
        act: Callable[[Session, str, str | None], Job],
    ) -> View:
        """Act on a job; a repetition under the same Idempotency-Key gets the first answer."""
        return creation.create(
            f"{self.kind}/{action}",
            NoBody(),
            self.shown_as,
            lambda session: self.view(act(session, job_id, self.kind)),
        )

    def _add_pause(self, router: APIRouter) -> None:
        @router.post(
            "/{job_id}/pause",
            summary=f"Pause {self._one}",
            response_model=self.shown_as,
            responses=documented_errors(NotFound, Conflict),
        )
        def pause(creation: Creation, job_id: str) -> View:
            """Save a checkpoint and free the devices; a queued job is paused immediately."""
            return self._once(creation, f"{job_id}/pause", job_id, request_pause)

        @router.post(
            "/{job_id}/resume",
            summary=f"Resume a paused {self.noun}",
            response_model=self.shown_as,
            responses=documented_errors(NotFound, Conflict),
        )
        def resume(creation: Creation, job_id: str) -> View:
            """Requeue a paused job; it resumes from the checkpoint of the pause."""
            return self._once(creation, f"{job_id}/resume", job_id, resume_job)

    def _add_retry(self, router: APIRouter) -> None:
        @router.post(
            "/{job_id}/retry",
            summary=f"Retry a failed {self.noun}",
            response_model=self.shown_as,
            responses=documented_errors(NotFound, Conflict),
        )
        def retry(creation: Creation, job_id: str) -> View:
            """Requeue a failed job; it resumes from its last checkpoint."""
            return self._once(creation, f"{job_id}/retry", job_id, retry_job)

    def _add_events(self, router: APIRouter) -> None:
        @router.get(
            "/{job_id}/events",
            summary=f"List or follow the events of {self._one}",
            response_model=Page[Event],
            responses=EVENTS_RESPONSES,
        )
        def events(
            gateway: Gateway, _principal: Principal, job_id: str, query: Events
        ) -> EventsResponse:
            """List events, newest first, or stream them, oldest first."""
            return query.respond(gateway, job_id, self.kind)

    def _add_delete(self, router: APIRouter) -> None:
        @router.delete(
            "/{job_id}",
            summary=f"Delete a finished {self.noun}",
            responses=documented_errors(NotFound, Conflict),
        )
        def delete(gateway: Gateway, _principal: Principal, job_id: str) -> Deleted:
            """Delete a finished job with its folder, events, checkpoints and models."""
            with gateway.database.write() as session:
                folder = remove_job(session, gateway.artifacts, job_id, self.kind)
            remove_folder(folder)
            return Deleted(id=job_id, object=self.shown_as.model_fields["object"].default)
