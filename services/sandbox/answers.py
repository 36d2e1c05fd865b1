"""Answers to clients that may hang up before they get them."""

from collections.abc import Coroutine
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from services.core.web.disconnect import ClientGone, while_connected

CLIENT_CLOSED_REQUEST = 499
"""Nobody reads it; it is what the figures show."""


async def answer_to(request: Request, work: Coroutine[Any, Any, BaseModel]) -> Response:
    """What the work comes to, as JSON; it is cancelled when the client hangs up."""
    try:
        answer = await while_connected(request.receive, work)
    except ClientGone:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return Response(answer.model_dump_json(), media_type="application/json")
