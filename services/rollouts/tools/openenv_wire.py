"""One WebSocket to an OpenEnv environment: a message, then its answer.

The protocol: https://github.com/huggingface/OpenEnv, ``core/env_server/http_server.py``.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
from yarl import URL

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.trajectories import CallOutcome
from services.inference.causes import cause_of_status
from services.inference.clients.json_service import LOOPBACK
from services.inference.clients.resolving import GuardedResolver
from services.inference.clients.retries import ServiceFailed
from services.parsing.foreign_json import parse_foreign
from services.rollouts.tools.base import SHOWN_CHARACTERS, ToolError
from services.rollouts.tools.endpoints import ToolEndpoint

LARGEST_MESSAGE = 16 << 20
"""Bytes."""
CLOSE_SECONDS = 5.0
MOST_WAITING = 16
"""Messages of the environment that nobody has asked for; one that sends more is broken."""
CAPACITY_REACHED = "CAPACITY_REACHED"
VALIDATION_ERROR = "VALIDATION_ERROR"
_OWN_MISTAKES = frozenset({"INVALID_JSON", "UNKNOWN_TYPE"})


class EnvironmentAnsweredError(Exception):
    """The environment answered with an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class EnvironmentSocket:
    """A session with an environment; made by `connected`.

    A task reads all the time, because pings are answered only while somebody reads, and a server
    takes a client for gone whose model has thought for a while.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, url: str, timeout: float) -> None:
        self._socket = socket
        self._url = url
        self._timeout = timeout
        self._turn = asyncio.Lock()
        self._answers: asyncio.Queue[JsonObject | None] = asyncio.Queue(MOST_WAITING)

    async def read(self) -> None:
        """Read until the connection ends."""
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    break
                value = parse_foreign(message.data.encode())
                if not isinstance(value, dict) or self._answers.full():
                    break
                self._answers.put_nowait(value)
        except ValueError:
            pass  # what follows a message that cannot be read belongs to no question
        finally:
            if self._answers.full():
                self._answers.get_nowait()
            self._answers.put_nowait(None)

    async def ask(self, kind: str, expected: str, data: JsonObject | None = None) -> JsonObject:
        """The data of the answer to a message, which must be of the ``expected`` type.

        Raises `ToolError` if the connection failed, after which the session cannot be used any
        more, and `EnvironmentAnsweredError` for an error of the environment.
        """
        async with self._turn:
            try:
                async with asyncio.timeout(self._timeout):
                    answer = await self._exchange(kind, data)
            except TimeoutError:
                await self._socket.close()
                message = f"{self._url} did not answer {kind} within {self._timeout:g} s"
                raise lost(message, InfrastructureCause.TIMED_OUT) from None
            except (aiohttp.ClientError, OSError) as error:
                message = f"{self._url} broke off: {error or type(error).__name__}"
                raise lost(message, InfrastructureCause.RESET) from error
        found = answer.get("data")
        found = found if isinstance(found, dict) else {}
        if answer.get("type") == "error":
            raise EnvironmentAnsweredError(str(found.get("code")), str(found.get("message")))
        if answer.get("type") != expected:
            message = f"{self._url} answered {kind} with a message of type {answer.get('type')!r}"
            raise lost(message[:SHOWN_CHARACTERS], InfrastructureCause.UNREADABLE)
        return found

    async def _exchange(self, kind: str, data: JsonObject | None) -> JsonObject:
        message: JsonObject = {"type": kind} if data is None else {"type": kind, "data": data}
        # The server may have said why it has no room, and then closed the connection.
        if not self._socket.closed:
            with suppress(ConnectionError):
                await self._socket.send_str(json.dumps(message))
        answer = await self._answers.get()
        if answer is None:
            self._answers.put_nowait(None)
            raise ConnectionResetError(f"the connection ended with {self._socket.close_code}")
        return answer


@asynccontextmanager
async def connected(
    http: aiohttp.ClientSession, target: ToolEndpoint, seconds: float
) -> AsyncIterator[EnvironmentSocket]:
    """A session that is closed with the block, whatever ends it; raises `ToolError`."""
    url = target.url.rstrip("/") + "/ws"
    socket = await _socket(http, url, seconds)
    session = EnvironmentSocket(socket, url, seconds)
    reading = asyncio.create_task(session.read())
    try:
        yield session
    finally:
        try:
            await _close(socket)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def _socket(
    http: aiohttp.ClientSession, url: str, seconds: float
) -> aiohttp.ClientWebSocketResponse:
    try:
        async with asyncio.timeout(seconds):
            return await http.ws_connect(
                url,
                max_msg_size=LARGEST_MESSAGE,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
            )
    except TimeoutError:
        message = f"{url} did not answer within {seconds:g} s"
        raise lost(message, InfrastructureCause.TIMED_OUT) from None
    except aiohttp.WSServerHandshakeError as error:
        cause = cause_of_status(error.status) or InfrastructureCause.MISCONFIGURED
        raise lost(f"{url} answered {error.status}", cause) from error
    except ServiceFailed as error:
        raise lost(error.message, InfrastructureCause.MISCONFIGURED) from error
    except (aiohttp.ClientError, OSError) as error:
        message = f"{url} was not reached: {error or type(error).__name__}"
        raise lost(message, InfrastructureCause.REFUSED) from error


async def _close(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Say that the session ends, and close the connection whether that is heard or not."""
    try:
        with suppress(TimeoutError, aiohttp.ClientError, OSError):
            async with asyncio.timeout(CLOSE_SECONDS):
                if not socket.closed:
                    await socket.send_str(json.dumps({"type": "close"}))
    finally:
        await socket.close()


def open_http(target: ToolEndpoint, connections: int) -> aiohttp.ClientSession:
    """The client of all sessions with one server."""
    headers = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse_redirect)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, resolver=GuardedResolver()),
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        # The environment's proxy must not be used for loopback addresses.
        trust_env=URL(target.url).host not in LOOPBACK,
        trace_configs=[trace],
    )


async def _refuse_redirect(*_: object) -> None:
    """The operator allowed one origin; another one may not stand in for it."""
    message = "the environment redirects, which is not followed"
    raise lost(message, InfrastructureCause.MISCONFIGURED)


def lost(message: str, cause: InfrastructureCause) -> ToolError:
    """The infrastructure failed."""
    is_late = cause is InfrastructureCause.TIMED_OUT
    outcome = CallOutcome.TIMED_OUT if is_late else CallOutcome.FAILED
    text = "Error: the environment failed."
    return ToolError(outcome, text, message, 1, None, cause)


def failed(error: EnvironmentAnsweredError) -> ToolError:
    """What an error of the environment is to the rollout: the model's mistake if its action was not
    valid, else a failure of the infrastructure."""
    message = f"the environment answered {error.code}: {error.message}"[:SHOWN_CHARACTERS]
    if error.code == VALIDATION_ERROR:
        text = "Error: the environment does not know this action."
        return ToolError(CallOutcome.INVALID_ARGUMENTS, text, message, 1)
    if error.code == CAPACITY_REACHED:
        return lost(message, InfrastructureCause.OVERLOADED)
    if error.code in _OWN_MISTAKES:
        return lost(message, InfrastructureCause.MISCONFIGURED)
    return lost(message, InfrastructureCause.SERVICE_ERROR)
