"""Entry points of the HTTP services: arguments, settings, the server."""

import argparse
import asyncio
import contextlib
import logging
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import formatdate
from typing import TypeVar

import uvicorn
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from services.contracts.errors import ConfigurationError, TemperError
from services.contracts.validation import fault_of
from services.core.logging import configure_logging
from services.core.web.auth import AccessSettings, check_exposure

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 5
# Longer than clients keep idle connections, so that none is closed as a request arrives.
KEEP_ALIVE_SECONDS = 75
STALLED_READER_SECONDS = 60
HEAD_SECONDS = 60.0

ServiceSettings = TypeVar("ServiceSettings", bound=AccessSettings)


@dataclass(frozen=True)
class Address:
    """The address on which a service listens."""

    host: str
    port: int


def start_service(
    program: str,
    port: int,
    settings_type: type[ServiceSettings],
    serve: Callable[[ServiceSettings, Address], None],
) -> int:
    """Serve until the process is stopped; prints one line and returns 2 when it cannot start."""
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=port)
    arguments = parser.parse_args()
    try:
        settings = settings_type()
        check_exposure(arguments.host, settings.api_key_hashes, settings.allow_keyless)
        configure_logging(settings.log_level, settings.log_json)
        _allow_many_descriptors()
        with contextlib.suppress(KeyboardInterrupt):  # the server has stopped by then
            serve(settings, Address(arguments.host, arguments.port))
    except TemperError as error:
        return _refuse(error.message)
    except ValidationError as error:
        return _refuse("; ".join(_sentence(problem) for problem in error.errors()))
    return 0


def _allow_many_descriptors() -> None:
    # A request may take several descriptors, and the default limit is often 1024.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class _Protocol(HttpToolsProtocol):
    """HTTP with a time limit for request heads, which uvicorn lacks (slowloris).

    Dates responses by the time of their request.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _dated = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's are of this type
        super().connection_made(transport)
        self._start_timer()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._start_timer()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._set_date()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._set_date()
        super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _set_date(self) -> None:
        second = int(time.time())
        if second != self._dated:
            self._dated = second
            date = (b"date", formatdate(second, usegmt=True).encode())
            self.server_state.default_headers = [date, *self.config.encoded_headers]

    def _start_timer(self) -> None:
        self._stop_timer()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _Server(uvicorn.Server):
    """Sleeps until it shall exit.

    uvicorn looks ten times a second whether it shall, and what the date for its responses is: most
    of the processor time of an idle service. Here `_Protocol` sets the date, at a request.
    """

    _exits = False
    _wake_up: Callable[[], object] = staticmethod(lambda: None)

    @property
    def should_exit(self) -> bool:
        """Whether the server ends; any thread and any signal handler may set it."""
        return self._exits

    @should_exit.setter
    def should_exit(self, exits: bool) -> None:
        self._exits = exits
        with contextlib.suppress(RuntimeError):  # its loop has ended
            self._wake_up()

    async def main_loop(self) -> None:
        """Serve until the server shall exit."""
        awakened = asyncio.Event()
        wake_up = asyncio.get_running_loop().call_soon_threadsafe
        self._wake_up = lambda: wake_up(awakened.set)
        while not await self.on_tick(0):
            await awakened.wait()
            awakened.clear()


class _GuestServer(_Server):
    """A server beside other work, which the process's signals are for."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield


def create_server(app: ASGIApp, *, takes_signals: bool = True) -> uvicorn.Server:
    """The uvicorn server of an application; it ends at a signal if it ``takes_signals``."""
    server = _Server if takes_signals else _GuestServer
    return server(
        uvicorn.Config(
            app,
            http=_Protocol,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
    )


def bind(address: Address) -> list[socket.socket]:
    """Bind the sockets of an address; raises `ConfigurationError`.

    A client that reads nothing of a response for a minute is disconnected.
    """
    try:
        sockets = list(_bind(address))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(
            f"cannot listen on {address.host}, port {address.port}: {reason}"
        ) from error
    logger.info("listening on %s, port %d", address.host, address.port)
    return sockets


def _bind(address: Address) -> Iterator[socket.socket]:
    found = socket.getaddrinfo(
        address.host or None,
        address.port,
        type=socket.SOCK_STREAM,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_PASSIVE,
    )
    for family, kind, protocol, _, where in found:
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        milliseconds = STALLED_READER_SECONDS * 1000
        # Accepted connections inherit this.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        listening.bind(where)
        yield listening


def _refuse(reason: str) -> int:
    print(reason, file=sys.stderr)  # noqa: T201 - logging may not be configured yet
    return 2


def _sentence(problem: ErrorDetails) -> str:
    fault = fault_of(problem)
    if not fault.location:  # an error about several variables, which the message names
        return fault.message
    return f"TEMPER_{fault.location[0]}".upper() + f": {fault.message}"
