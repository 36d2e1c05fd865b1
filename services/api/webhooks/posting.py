"""Posting to an address that a client named: only to public addresses, and never elsewhere."""

import asyncio
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

import httpx

from services.core.addresses import is_public, plain

ATTEMPT_SECONDS = 10.0
"""For all of a request: the name, the connection, and the head of the answer."""
SHOWN_CHARACTERS = 200
# A resolver cannot be interrupted, so that one may outlive its request.
_RESOLVERS = ThreadPoolExecutor(64, thread_name_prefix="webhook-names")


class NotDelivered(Exception):
    """A request was not accepted; the message says why, in one line."""


async def post(
    client: httpx.AsyncClient,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    private_allowed: bool,
) -> None:
    """Post a body; raises `NotDelivered` unless the answer is 2xx, and comes in `ATTEMPT_SECONDS`.

    Redirects are not followed. The name is resolved once, and the request goes to the address that
    was checked: a name cannot point elsewhere in between.
    """
    try:
        async with asyncio.timeout(ATTEMPT_SECONDS):
            await _post(client, httpx.URL(url), body, headers, private_allowed)
    except TimeoutError:
        raise NotDelivered(f"no answer within {ATTEMPT_SECONDS:g} s") from None


async def _post(
    client: httpx.AsyncClient,
    target: httpx.URL,
    body: bytes,
    headers: Mapping[str, str],
    private_allowed: bool,
) -> None:
    loop = asyncio.get_running_loop()
    address = await loop.run_in_executor(_RESOLVERS, _resolve, target, private_allowed)
    request = client.build_request(
        "POST",
        target.copy_with(host=address),
        content=body,
        headers={
            **headers,
            "host": target.netloc.decode("ascii"),
            "content-type": "application/json",
            "user-agent": "temper-webhooks",
        },
        extensions={"sni_hostname": target.host, "timeout": httpx.Timeout(None).as_dict()},
    )
    try:
        response = await client.send(request, stream=True)
    except httpx.HTTPError as error:
        raise NotDelivered(f"{type(error).__name__}: {error}"[:SHOWN_CHARACTERS]) from None
    try:
        if not response.is_success:
            moved = " (redirects are not followed)" if response.is_redirect else ""
            raise NotDelivered(f"the endpoint answered {response.status_code}{moved}")
    finally:
        await response.aclose()  # its body, of whatever length, is not read


def _resolve(target: httpx.URL, private_allowed: bool) -> str:
    port = target.port or (443 if target.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(target.host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NotDelivered(f"{target.host} cannot be resolved: {error}") from None
    addresses = [plain(ip_address(str(item[4][0]).partition("%")[0])) for item in found]
    for address in addresses:
        if private_allowed or is_public(address):
            return str(address)
    raise NotDelivered(
        f"{target.host} has no public address; the operator allows others with "
        "TEMPER_WEBHOOK_PRIVATE_ADDRESSES=true"
    )
