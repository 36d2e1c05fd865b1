"""The output of a program while it runs, as server-sent events."""

import codecs

from services.contracts.sandbox import CommandResult, OutputPiece, RunCodeResponse
from services.sandbox.event_stream import Events, EventStream, described_events
from services.sandbox.execution import Stream
from services.sandbox.runs.service import CodeRun, Runs

STREAM_ANSWER = described_events(
    "Command results and pieces of text, as JSON; the last event is `result`, the answer of "
    "/run_code.",
    *("compile_result", "stdout", "stderr", "result"),
)


def run_stream(runs: Runs, run: CodeRun) -> EventStream:
    """Runs a program and sends what happens; it is ended when the client hangs up."""

    async def work(events: RunEvents) -> RunCodeResponse:
        # The place is free again at the program's end, however slowly the client listens.
        async with runs.place(run.program.patience):
            events.begin()
            return await runs.execute(run, events.printed, events.compiled)

    return EventStream(work, RunEvents())


class RunEvents(Events):
    """What a program gives out.

    However slowly it is taken, it holds no more than what is kept of a program's output.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_over = False
        self._printed = {stream: bytearray() for stream in Stream}
        self._decoders = {
            stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in Stream
        }

    def compiled(self, result: CommandResult) -> None:
        """The compiler has ended."""
        self.tell("compile_result", result)

    def printed(self, stream: Stream, piece: bytes) -> None:
        """The program has written something."""
        self._printed[stream] += piece
        self.wake()

    def finish(self) -> None:
        """Halves of characters that were held back remain halves."""
        self._is_over = True

    def take(self) -> bytes:
        """All that has happened since."""
        for stream, printed in self._printed.items():
            text = self._decoders[stream].decode(bytes(printed), self._is_over)
            printed.clear()
            if text:
                self.tell(stream, OutputPiece(text=text))
        return super().take()
