"""What a tool service is to the gateway: an address, a key, and the routes it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fastapi.openapi.models import Example
from pydantic import BaseModel


@dataclass(frozen=True)
class ToolRoute:
    """A POST route of a tool service, which the gateway answers under the same path.

    ``request``, ``answer`` and the ``examples`` of requests describe it to readers of the API;
    the service alone checks them.
    """

    path: str
    summary: str
    request: type[BaseModel]
    answer: type[BaseModel]
    examples: Mapping[str, Example]


@dataclass(frozen=True)
class ToolService:
    """A service behind the gateway. Adding one is adding a value of this in `tools`.

    ``url`` is its origin and ``api_key`` what the gateway shows it. ``start`` tells an operator
    how it is started. One request may bring ``body_bytes`` and take ``seconds``; more than
    ``calls`` at once are refused.
    """

    name: str
    url: str
    api_key: str | None = field(repr=False)
    start: str
    routes: tuple[ToolRoute, ...]
    body_bytes: int
    seconds: float
    calls: int
