"""The dashboard on recorded responses, without a stack: ``python -m services.api.dashboard.demo``.

`RECORDING` holds what a gateway answered to the pages of real runs; ``python -m infra.recording``
makes it.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter

from services.api.dashboard.routes import PREFIX, router
from services.core.web.serving import Address, bind, create_server

RECORDING = Path(__file__).with_name("recording.json")
UNRECORDED = "this is not part of the recording; start a stack with: temper up"
JSON_TYPE = "application/json"
MAX_BODY_BYTES = 10_000

Responses = dict[str, str]
"""Bodies of responses by `key_of` their requests."""


COMPARISON = "/compare"
"""How the path of a POST request ends that changes nothing."""


def key_of(path: str, query: list[tuple[str, str]], sent: str | None) -> str:
    """What identifies a recorded request: its path, its query in order, and its range or body."""
    parameters = "&".join(f"{name}={value}" for name, value in sorted(query))
    return " ".join(filter(None, (path, parameters, sent)))


def load_recording(path: Path = RECORDING) -> Responses:
    """Read a recording."""
    return TypeAdapter(Responses).validate_json(path.read_bytes())


def name_in(responses: Responses, named: str) -> str | None:
    """The name of a recorded job or file; None if it is not part of the recording."""
    for path, field in ((f"/v1/jobs/{named}", "name"), (f"/v1/files/{named}", "filename")):
        if body := responses.get(key_of(path, [], None)):
            return str(json.loads(body)[field])
    return None


def create_demo(responses: Responses) -> FastAPI:
    """The application: pages of the dashboard, and recorded responses for all that they load."""
    app = FastAPI(openapi_url=None)

    @app.get(f"{PREFIX}/session")
    async def session() -> dict[str, bool]:
        return {"keys_required": False, "signed_in": True}

    @app.get(f"{PREFIX}/names")
    async def names(of: Annotated[list[str], Query()]) -> dict[str, dict[str, str]]:
        return {"names": {one: name for one in of if (name := name_in(responses, one)) is not None}}

    @app.get("/v1/events")
    async def events(job: Annotated[list[str], Query()]) -> Response:
        """Every job of a recording has ended."""
        ends = [f"event: end\ndata: {json.dumps({'job_id': one})}\n\n" for one in job]
        return Response("".join([*ends, "data: [DONE]\n\n"]), media_type="text/event-stream")

    @app.get(f"{PREFIX}/openapi.json")
    @app.get("/v1/{path:path}")
    async def recorded(request: Request) -> Response:
        query = request.query_params.multi_items()
        body = responses.get(key_of(request.url.path, query, request.headers.get("range")))
        if body is None:
            return JSONResponse({"error": {"message": UNRECORDED}}, status_code=404)
        is_json = body.startswith(("{", "["))
        return Response(body, media_type=JSON_TYPE if is_json else "text/plain")

    @app.api_route("/{path:path}", methods=["POST", "PUT", "PATCH", "DELETE"])
    async def refused(request: Request, path: str) -> Response:
        if request.method == "POST" and path.endswith(COMPARISON):
            sent = (await request.body())[:MAX_BODY_BYTES].decode(errors="replace")
            if found := responses.get(key_of(f"/{path}", [], sent)):
                return Response(found, media_type=JSON_TYPE)
        message = "nothing can be changed in a recording; start a stack with: temper up"
        return JSONResponse({"error": {"message": message}}, status_code=403)

    app.include_router(router)
    return app


def main() -> int:
    """Serve the recording on loopback until a signal stops the process."""
    parser = argparse.ArgumentParser(prog="temper open --demo")
    parser.add_argument("--port", type=int, default=8080)
    port = parser.parse_args().port
    create_server(create_demo(load_recording())).run(bind(Address("127.0.0.1", port)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
