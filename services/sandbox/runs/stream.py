"""/v1/run_code/stream: the output of a program as server-sent events."""

import codecs

from services.contracts.sandbox.programs import CommandResult, OutputPiece, RunCodeResponse
from services.sandbox.event_stream import Events, WorkEventStream, described_events
from services.sandbox.execution import Stream
from services.sandbox.runs.service import CodeRun, Runs

STREAM_ANSWER = described_events(
    "Command results and pieces of output, as JSON; the last event is `result`, the response of "
    "/run_code.",
    *("compile_result", "stdout", "stderr", "result"),
)


def run_stream(runs: Runs, run: CodeRun) -> WorkEventStream:
    """Run a program and stream its output; it is killed when the client disconnects."""

    async def work(events: RunEvents) -> RunCodeResponse:
        # The slot is released when the program ends, however slowly the client reads.
        async with runs.permit(run.program, run.program.queue_timeout):
            events.begin()
            return await runs.execute(run, events.printed, events.compiled)

    return WorkEventStream(work, RunEvents())


class RunEvents(Events):
    """Output of a program as events.

    A slow reader never makes it hold more than the kept output of one program.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_over = False
        self._printed = {stream: bytearray() for stream in Stream}
        self._decoders = {
            stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in Stream
        }

    def compiled(self, result: CommandResult) -> None:
        """The compiler has finished."""
        self.emit("compile_result", result)

    def printed(self, stream: Stream, piece: bytes) -> None:
        """The program has written output."""
        self._printed[stream] += piece
        self.wake()

    def finish(self) -> None:
        """Incomplete characters at the end will not be completed."""
        self._is_over = True

    def drain(self) -> bytes:
        """Remove and return the buffered events."""
        for stream, printed in self._printed.items():
            text = self._decoders[stream].decode(bytes(printed), self._is_over)
            printed.clear()
            if text:
                self.emit(stream, OutputPiece(text=text))
        return super().drain()
