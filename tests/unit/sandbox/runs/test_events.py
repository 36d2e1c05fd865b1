"""Output becomes events."""

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from services.contracts.sandbox.programs import CommandResult, CommandStatus
from services.sandbox.execution import Stream
from services.sandbox.runs.stream import RunEvents

PIECES = st.lists(st.tuples(st.sampled_from(Stream), st.binary(max_size=6), st.booleans()))


def parsed(frames: bytes) -> list[tuple[str, dict[str, object]]]:
    """The names and data of server-sent events."""
    found = []
    for frame in frames.decode().split("\n\n")[:-1]:
        name, data = frame.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


@given(PIECES)
def test_decoded_pieces_add_up_to_the_output(
    pieces: list[tuple[Stream, bytes, bool]],
) -> None:
    events = RunEvents()
    frames: list[bytes] = []
    for stream, piece, is_taken in pieces:
        events.printed(stream, piece)
        if is_taken:
            frames.append(events.drain())
    events.finish()
    frames.append(events.drain())

    for stream in Stream:
        whole = b"".join(piece for of, piece, _ in pieces if of is stream)
        told = "".join(
            str(data["text"]) for name, data in parsed(b"".join(frames)) if name == stream
        )
        assert told == whole.decode(errors="replace")


def test_the_compile_result_is_sent_once_before_the_output() -> None:
    events = RunEvents()
    events.compiled(CommandResult(status=CommandStatus.FINISHED, return_code=0, stdout="warning"))
    events.printed(Stream.STDOUT, b"a\nb")

    (first, compiled), (second, printed) = parsed(events.drain())

    assert (first, compiled["stdout"]) == ("compile_result", "warning")
    assert (second, printed) == ("stdout", {"text": "a\nb"})
    events.finish()
    assert events.drain() == b""


def test_wait_returns_for_earlier_events_and_times_out() -> None:
    async def wait() -> tuple[bool, bool]:
        events = RunEvents()
        events.printed(Stream.STDERR, b"early")
        return await events.wait(30.0), await events.wait(0.01)

    assert asyncio.run(wait()) == (True, False)
