"""The published OpenEnv server with an environment of its own: run by a Python that has `openenv`.

``... openenv_server.py PORT SESSIONS``. A tool echoes; each step is rewarded with the length of
what it says, and a farewell ends the episode.
"""

import sys
from typing import Any, ClassVar

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State


class EchoEnvironment(MCPEnvironment):  # type: ignore[misc]  # the library is not installed here
    """Echoes after a greeting that comes with the reset."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    open: ClassVar[set[int]] = set()

    def __init__(self) -> None:
        self.open.add(id(self))
        server = FastMCP("echo")
        self._greeting = ""

        @server.tool()  # type: ignore[untyped-decorator]  # the library is not installed here
        def echo(text: str) -> str:
            return f"{self._greeting}{text}"

        super().__init__(server)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:
        self._greeting = str(kwargs.get("greeting", ""))
        return Observation(metadata={"seed": seed})

    async def step_async(self, action: Action, **kwargs: Any) -> Observation:
        seen = await super().step_async(action, **kwargs)
        if isinstance(action, CallToolAction) and isinstance(seen, CallToolObservation):
            said = str(action.arguments.get("text", ""))
            seen.reward, seen.done = float(len(said)), said == "goodbye"
        return seen

    def _step_impl(self, action: Action, **kwargs: Any) -> Observation:
        raise ValueError(f"no action {action}")

    @property
    def state(self) -> State:
        return State()

    def close(self) -> None:
        self.open.discard(id(self))
        super().close()


def main() -> None:
    """Serve until killed."""
    port, sessions = map(int, sys.argv[1:])
    app = create_fastapi_app(
        EchoEnvironment, CallToolAction, CallToolObservation, max_concurrent_envs=sessions
    )
    app.add_api_route("/open", lambda: len(EchoEnvironment.open))
    uvicorn.run(app, port=port, log_level="warning")


if __name__ == "__main__":
    main()
