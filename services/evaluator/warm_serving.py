"""A serving that already runs, as what answers a job: the job needs no device of its own."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from services.contracts.errors import JobFailed
from services.contracts.jobs import JobStatus
from services.core.artifacts import Artifacts
from services.core.process.reporter import NEEDS_DEVICE
from services.inference.relay_protocol import (
    ADAPTER_HEADER,
    RelayEndpoint,
    ServedAdapter,
    read_endpoint,
)
from services.models.registry import ResolvedModel
from services.models.servings import loaded_model, serving_of

LOOK_SECONDS = 0.5


class WarmServing(BaseModel):
    """The serving of a model. Its secret stays in its own folder, which no client reads."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    type: Literal["warm"] = "warm"
    folder: Path = Field(description="Of the serving's job.")
    epoch: int
    adapter: ServedAdapter | None = None
    stop_token_ids: list[int] = Field(default_factory=list)

    @property
    def headers(self) -> Mapping[str, str]:
        """Of each request to its relay."""
        return {} if self.adapter is None else {ADAPTER_HEADER: self.adapter.header()}

    def endpoint(self) -> RelayEndpoint:
        """Its relay; raises `JobFailed` with the code ``needs_device`` once it has ended."""
        endpoint = read_endpoint(self.folder, self.epoch)
        if endpoint is None:
            raise JobFailed("the serving of the model has ended", code=NEEDS_DEVICE)
        return endpoint

    async def watch(self) -> None:
        """Raise as `endpoint` does once it has ended or another engine has taken its place."""
        begun = self.endpoint()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.endpoint() != begun:
                raise JobFailed("the serving of the model has begun again", code=NEEDS_DEVICE)


def warm_serving(
    session: Session, model: ResolvedModel, artifacts: Artifacts
) -> WarmServing | None:
    """The serving that answers requests to a model now, if there is one."""
    loaded = loaded_model(session, model)
    job = serving_of(session, loaded)
    if job is None or job.status is not JobStatus.RUNNING or job.cancel_requested_at is not None:
        return None
    folder = artifacts.job(job.id)
    if read_endpoint(folder, job.epoch) is None:
        return None
    adapter = None
    if model.adapter is not None and loaded != model.id:
        adapter = ServedAdapter(name=model.id, path=model.adapter)
    return WarmServing(
        folder=folder,
        epoch=job.epoch,
        adapter=adapter,
        stop_token_ids=list(model.stop_token_ids),
    )


def ended_serving(folder: Path) -> WarmServing:
    """A serving that has ended, with which a child asks for a device at once."""
    return WarmServing(folder=folder, epoch=-1)
