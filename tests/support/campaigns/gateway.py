"""A gateway for campaigns in a test's own process, whose jobs the test ends."""

import asyncio
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from sqlalchemy import select

from services.campaigns.gateway import Gateway
from services.contracts.base import JsonObject
from services.contracts.data.files import FilePurpose
from services.contracts.jobs import JobStatus
from services.core.artifacts import Artifacts
from services.core.db.tables import JobRow
from services.jobs.job import NewJob
from services.jobs.queues import EVALUATION, TRAINING
from services.jobs.store import create_job
from tests.support.campaigns.run import StoredCampaign

HOUR = 3600.0
OUTAGE = {"source": "grader", "cause": "refused", "message": "nothing listens"}


class GatewayOfTest(Gateway):
    """Creates jobs in the database; a job is named after the effect that it is of."""

    def __init__(self, campaign: StoredCampaign) -> None:
        super().__init__(campaign.settings)
        self._campaign = campaign
        self.bodies: dict[str, JsonObject] = {}
        self.requests: list[str] = []
        self.files: dict[str, list[JsonObject]] = {}

    async def create(self, path: str, body: JsonObject, key: str) -> str:
        """Create a job under its key."""
        name = key.removeprefix(f"campaign/{self._campaign.id}/").replace("/", ".")
        self.requests.append(name)
        queue = TRAINING if "fine_tuning" in path else EVALUATION
        kind = "fine_tuning" if queue is TRAINING else "evaluation"
        new = NewJob(name, kind, queue.work, queue.validation, body, body["gpus"])
        with self._campaign.database.write() as session:
            create_job(session, new)
        self.bodies[name] = body
        return name

    async def upload(self, path: Path, filename: str, purpose: FilePurpose, key: str) -> str:
        """Keep the rows of a file."""
        text = await asyncio.to_thread(path.read_text)
        self.files[filename] = [json.loads(line) for line in text.splitlines()]
        return filename

    async def delete(self, path: str, key: str) -> None:
        """Nothing is kept."""

    @property
    def unfinished(self) -> set[str]:
        """The jobs that have not ended."""
        return {name for name in self.bodies if not self._campaign.status_of(name).is_final}

    def trained(self, name: str, hours: float = 0.0) -> None:
        """End a training."""
        self._end(name, hours, JobStatus.SUCCEEDED, result={"fine_tuned_model": f"ft:{name}"})

    def evaluated(
        self,
        name: str,
        right: int,
        hours: float = 0.0,
        lost: Collection[int] = (),
        ungraded: Collection[int] = (),
    ) -> None:
        """End an evaluation whose first ``right`` items are right, but for those that the
        infrastructure ``lost``, and those that have no grade."""
        items = len(self.files[str(self.bodies[name]["file"])])
        folder = Artifacts(self._campaign.settings.home).job(name)
        folder.mkdir(parents=True, exist_ok=True)
        rows = [
            {"index": index, "gold": ["1"], "answer": "1", "score": float(right > index)}
            for index in range(items)
        ]
        graded = [
            {**row, "score": None, "correct": None}
            if row["index"] in ungraded
            else {**row, "correct": row["score"] == 1.0}
            for row in rows
        ]
        nothing = {"answer": None, "score": None, "correct": None, "left_out": OUTAGE}
        lines = (json.dumps({**row, **nothing} if row["index"] in lost else row) for row in graded)
        (folder / "results.jsonl").write_text("".join(f"{line}\n" for line in lines))
        self._end(name, hours, JobStatus.SUCCEEDED, result={})

    def failed(self, name: str, code: str) -> None:
        """End a job with an error."""
        error = {"code": code, "message": f"it ended with {code}"}
        self._end(name, 0.0, JobStatus.FAILED, error=error)

    def _end(self, name: str, hours: float, status: JobStatus, **columns: Any) -> None:
        with self._campaign.database.write() as session:
            row = session.scalars(select(JobRow).where(JobRow.id == name)).one()
            row.status, row.started_at = status.value, 1000.0
            row.finished_at = 1000.0 + hours * HOUR
            for column, value in columns.items():
                setattr(row, column, value)
