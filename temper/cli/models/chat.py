"""``temper chat``: a conversation with a model, in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from temper.cli.exit_codes import ExitCode
from temper.cli.gateway import connect
from temper.cli.output import Output

if TYPE_CHECKING:
    from services.contracts.base import JsonObject
    from temper.client import Temper

ModelName = Annotated[str, typer.Argument(metavar="MODEL")]
Prompt = Annotated[
    str | None, typer.Argument(help="Answer this and exit; without it, chat line by line.")
]
System = Annotated[str | None, typer.Option(help="A system prompt.")]
Temperature = Annotated[float | None, typer.Option(min=0.0, max=2.0, help="Sampling temperature.")]
TopP = Annotated[
    float | None,
    typer.Option(min=0.0, max=1.0, help="Nucleus sampling: share of the probability mass to use."),
]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Maximum tokens per answer.")]
Seed = Annotated[int | None, typer.Option(help="Sampling seed, for reproducible answers.")]
Stop = Annotated[list[str] | None, typer.Option(help="Stop sequence; repeatable.")]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tool",
        metavar="TOOL",
        help="A tool that the gateway runs: code_interpreter, file_search=INDEX, or mcp=URL or "
        "openenv=URL of a server that the operator allows; repeatable.",
    ),
]
Wait = Annotated[
    float, typer.Option(min=0.0, help="Seconds to wait for the model's engine to start.")
]

HELP = "/reset clears the conversation; Ctrl-C stops an answer, Ctrl-D exits"


_CALLS = frozenset({"mcp_call", "code_interpreter_call", "file_search_call"})


class ChatHistory:
    """A conversation so far, and the sampling options of its next answer."""

    def __init__(
        self,
        client: Temper,
        out: Output,
        model: str,
        system: str | None,
        wait_seconds: float,
        options: JsonObject,
        tools: Sequence[JsonObject] = (),
    ) -> None:
        self._client = client
        self._out = out
        self._model = model
        self._wait_seconds = wait_seconds
        self._options = options
        self._tools = tools
        self._first: list[JsonObject] = (
            [{"role": "system", "content": system}] if system is not None else []
        )
        self.messages = list(self._first)
        self._last_notice = ""

    def reset(self) -> None:
        """Drop every message but the system prompt."""
        self.messages = list(self._first)

    def ask(self, prompt: str) -> None:
        """Print the answer as it is generated, and add it to the conversation.

        After Ctrl-C the partial answer is kept; if there is none, the prompt is dropped as well.
        """
        if self._tools:
            self._ask_with_tools(prompt)
            return
        question: JsonObject = {"role": "user", "content": prompt}
        answer: list[str] = []
        try:
            pieces = self._client.chat.stream(
                self._model,
                [*self.messages, question],
                wait_seconds=self._wait_seconds,
                on_wait=self._notify,
                **self._options,
            )
            with closing(pieces):
                for piece in pieces:
                    answer.append(piece)
                    _write(piece)
        finally:
            if answer:
                _write("\n")
                self.messages += [question, {"role": "assistant", "content": "".join(answer)}]

    def _ask_with_tools(self, prompt: str) -> None:
        """Print the answer and a line for each call; an answer that breaks off is forgotten."""
        items = [*self.messages, {"role": "user", "content": prompt}]
        pieces = self._client.chat.with_tools(
            self._model,
            items,
            self._tools,
            wait_seconds=self._wait_seconds,
            on_wait=self._notify,
            on_item=self._show_call,
            **self._options,
        )
        written = False
        try:
            with closing(pieces):
                for piece in pieces:
                    written = True
                    _write(piece)
        finally:
            if written:
                _write("\n")
        self.messages = items

    def _show_call(self, item: JsonObject) -> None:
        if item["type"] in _CALLS:
            asked = item.get("code") or item.get("queries") or item.get("arguments")
            self._out.note(f"{item.get('name') or item['type']}: {asked}", "dim")

    def _notify(self, reason: str) -> None:
        if reason != self._last_notice:
            self._last_notice = reason
            self._out.note(reason, "dim")


def chat(
    model: ModelName,
    prompt: Prompt = None,
    system: System = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    max_tokens: MaxTokens = None,
    seed: Seed = None,
    stop: Stop = None,
    tools: Tools = None,
    wait: Wait = 900.0,
) -> None:
    """Talk to a model: a registered one, a fine-tuned one, or a checkpoint of a running job."""
    out = Output(as_json=False)
    options: JsonObject = {
        "temperature": temperature,
        "top_p": top_p,
        "max_tokens": max_tokens,
        "seed": seed,
        "stop": stop or None,
    }
    if tools:
        if stop or seed is not None:
            raise typer.BadParameter("answers with tools take no --seed and no --stop")
        options = {"temperature": temperature, "top_p": top_p, "max_output_tokens": max_tokens}
    used = [tool_of(text, number) for number, text in enumerate(tools or (), 1)]
    with connect() as client:
        conversation = ChatHistory(client, out, model, system, wait, options, used)
        if prompt is not None:
            conversation.ask(prompt)
        elif sys.stdin.isatty():
            out.note(HELP, "dim")
            _converse(conversation, out)
        else:
            conversation.ask(sys.stdin.read())


def tool_of(text: str, number: int) -> JsonObject:
    """A tool as `/v1/responses` takes it; ``number`` labels a server. Raises `BadParameter`."""
    name, _, value = text.partition("=")
    if text == "code_interpreter":
        return {"type": name, "container": {"type": "auto"}}
    if name == "file_search" and value:
        return {"type": name, "vector_store_ids": value.split(",")}
    if name in {"mcp", "openenv"} and value:
        server = {"type": name, "server_label": f"server_{number}", "server_url": value}
        return {**server, "require_approval": "never"} if name == "mcp" else server
    raise typer.BadParameter(
        f"{text!r} is none of code_interpreter, file_search=INDEX, mcp=URL and openenv=URL",
        param_hint="--tool",
    )


def _converse(conversation: ChatHistory, out: Output) -> None:
    """Chat line by line; a rejected request does not end the conversation."""
    from temper.client import ClientError

    for line in _lines():
        if line == "/reset":
            conversation.reset()
            continue
        try:
            conversation.ask(line)
        except KeyboardInterrupt:
            _write("\n")
        except ClientError as error:
            out.note(error.message, "red")


def _lines() -> Iterator[str]:
    """Yield typed lines, with line editing and history where Python has readline."""
    with suppress(ImportError):
        import readline  # noqa: F401 - importing it changes what input() does
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            _write("\n")
            return
        except KeyboardInterrupt:
            _write("\n")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        if line:
            yield line


def _write(text: str) -> None:
    """Write a model's text verbatim: no markup, no wrapping."""
    sys.stdout.write(text)
    sys.stdout.flush()
