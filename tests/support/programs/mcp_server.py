"""The published MCP server with one tool, as a process of its own: its streams end for good once
any server of the same process was shut down."""

import argparse

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


def adding_server(*, json_response: bool) -> Starlette:
    """A server that also tells how many sessions are open."""
    server = sums()

    def ready(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ready"})

    def sessions(_: Request) -> JSONResponse:
        return JSONResponse(len(server.session_manager._server_instances))

    app = server.streamable_http_app(json_response=json_response)
    app.routes.extend([Route("/readyz", ready), Route("/sessions", sessions)])
    return app


def sums() -> MCPServer:
    """A server that adds, and refuses negative numbers."""
    server = MCPServer("sums")

    @server.tool()
    def add(a: int, b: int) -> str:
        if a < 0:
            raise ToolError("a is negative")
        return str(a + b)

    return server


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.port is None:
        sums().run("stdio")
        return
    app = adding_server(json_response=arguments.json)
    uvicorn.run(app, port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
