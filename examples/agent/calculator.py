"""An agent as a service: a loop of its own with the openai package, and a tool of its own.

    python examples/agent/calculator.py --port 9000

Jobs name it as ``agent: {type: http, url: "http://127.0.0.1:9000/play"}``. Each rollout is one
request; its conversation is the agent's own doing, and the job's rewards judge how it ends.
"""

import argparse
import ast
import json
import operator
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

MOST_CALLS = 3
LARGEST = 10**12

TOOL = {
    "type": "function",
    "function": {
        "name": "code_interpreter",
        "description": "Run Python code.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string"}},
            "required": ["code"],
        },
    },
}

_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


async def play(request: Request) -> JSONResponse:
    """Play one rollout: ask, calculate, ask again."""
    session = await request.json()
    shared: AsyncOpenAI = request.app.state.client
    client = shared.with_options(base_url=session["base_url"], api_key=session["api_key"])
    await _converse(client, session["model"], list(session["messages"]))
    return JSONResponse({})


async def _converse(client: AsyncOpenAI, model: str, messages: list[Any]) -> None:
    for _ in range(MOST_CALLS):
        answer = await client.chat.completions.create(
            model=model,
            messages=messages,
            tools=[TOOL],  # type: ignore[list-item]  # a plain dictionary is what the API takes
        )
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            arguments = call.function.arguments if call.type == "function" else ""
            messages.append(
                {"role": "tool", "tool_call_id": call.id, "content": calculated(arguments)}
            )


def calculated(arguments: str) -> str:
    """The value of the expression in a call's arguments, or what is wrong with it."""
    try:
        tree = ast.parse(json.loads(arguments)["code"], mode="eval")
        return f"{_value(tree.body)}\n"
    except (ValueError, KeyError, TypeError, SyntaxError, RecursionError) as error:
        return f"{type(error).__name__}: {error}\n"


def _value(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(value)) if abs(value) < LARGEST:
            return value
        case ast.BinOp() if type(node.op) in _OPERATORS:
            value = _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
            if abs(value) < LARGEST:
                return value
    raise ValueError("only sums, differences and products of moderate integers are calculated")


@asynccontextmanager
async def _client(app: Starlette) -> AsyncIterator[None]:
    """One client, whose connections all sessions share; each session has its own URL and key."""
    async with AsyncOpenAI(base_url="http://unused", api_key="unused") as client:
        app.state.client = client
        yield


app = Starlette(routes=[Route("/play", play, methods=["POST"])], lifespan=_client)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=9000)
    uvicorn.run(app, host="127.0.0.1", port=parser.parse_args().port, log_level="warning")
