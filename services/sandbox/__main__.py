"""Run the sandbox: ``python -m services.sandbox --host 127.0.0.1 --port 8081``."""

import asyncio
import signal
import socket
import sys
from types import FrameType

import uvloop

from services.core.web.serving import Address, bind, create_server, start_service
from services.sandbox.app import create_sandbox
from services.sandbox.engine import running_engine
from services.sandbox.settings import SandboxSettings


def main() -> int:
    """Serve until a signal arrives; return 2 if the settings or the host do not allow it."""
    return start_service("temper serve sandbox", 8081, SandboxSettings, _serve)


def _serve(settings: SandboxSettings, address: Address) -> None:
    # The server re-raises its signal after shutdown, but the engine still has to be closed then.
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, _leave)
    sockets = bind(address)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(settings, sockets))


async def _run(settings: SandboxSettings, sockets: list[socket.socket]) -> None:
    async with running_engine(settings) as engine:
        await create_server(create_sandbox(settings, engine)).serve(sockets)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
