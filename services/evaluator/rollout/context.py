"""How long a conversation a server can hold."""

from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from services.inference.clients.json_service import LOOPBACK

LOOK_UP_SECONDS = 10.0
LARGEST_ANSWER = 4 * 2**20


class _Card(BaseModel):
    id: str
    max_model_len: int | None = None


class _Cards(BaseModel):
    data: list[_Card]


async def context_length(base_url: str, key: str | None, model: str | None = None) -> int | None:
    """How many tokens the server says that it holds; None where it does not say so.

    With ``model``, what it says of that one.
    """
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    # A proxy of the environment must not be asked for a loopback address.
    proxied = urlsplit(base_url).hostname not in LOOPBACK
    try:
        async with httpx.AsyncClient(
            headers=headers, timeout=LOOK_UP_SECONDS, trust_env=proxied
        ) as client:
            cards = _Cards.model_validate_json(await _get(client, f"{base_url}/models")).data
    except (httpx.HTTPError, httpx.InvalidURL, ValidationError):
        return None
    known = [card.max_model_len for card in cards if model is None or card.id == model]
    return next((length for length in known if length is not None), None)


async def _get(client: httpx.AsyncClient, url: str) -> bytes:
    """The body of an answer, cut where nobody would write one so long."""
    body = bytearray()
    async with client.stream("GET", url) as answer:
        async for chunk in answer.aiter_bytes():
            body += chunk
            if len(body) > LARGEST_ANSWER:
                break
    return bytes(body)
