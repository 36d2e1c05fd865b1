import io
import json

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from rich.console import Console

from services.contracts.jobs import JobStatus
from temper.cli.jobs.follow import Follower
from temper.cli.output import Output
from temper.client import Temper
from tests.unit.cli.conftest import ScriptedServer

JOB = {
    "id": "j",
    "created_at": 0,
    "kind": "fine_tuning",
    "phase": "training",
    "progress": {"step": 3, "total_steps": 9, "percent": 33.3, "eta_seconds": 61.0},
}
METRICS = {"step": 3, "loss": 0.25}


def events(_: Request) -> Response:
    shared = {"created_at": 0, "level": "info"}
    lines = [
        {**shared, "id": "e1", "type": "message", "message": "weights are loaded"},
        {**shared, "id": "e2", "type": "metrics", "message": "m", "data": METRICS},
    ]
    parts = [f"id: {line['id']}\ndata: {json.dumps(line)}\n\n" for line in lines]
    return StreamingResponse(iter([*parts, "data: [DONE]\n\n"]), media_type="text/event-stream")


def test_a_terminal_shows_messages_above_a_progress_bar(
    client: Temper, server: ScriptedServer
) -> None:
    running, done = (JSONResponse({**JOB, "status": s}) for s in ("running", "succeeded"))
    server.on("/v1/jobs/j", running, done)
    server.on("/v1/jobs/j/events", events)
    out = Output(as_json=False)
    screen = io.StringIO()
    out.results = Console(file=screen, force_terminal=True, width=100)

    job = Follower(client, out).follow("j")

    assert job.status is JobStatus.SUCCEEDED
    assert "weights are loaded" in screen.getvalue()
    assert "loss 0.25" in screen.getvalue()
