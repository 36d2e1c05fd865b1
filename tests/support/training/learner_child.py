"""A learner process of a test, with the test in the coordinator's place."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from services.core.process.runtimes import child_environment
from services.trainer.rl.learner.protocol import ANSWER, SPEC, Answer, LearnerSpec, Ready, Request

DEADLINE = 240.0
CHILD = "services.trainer.rl.learner"


@dataclass
class LearnerChild:
    """The process, and the line to it."""

    process: "subprocess.Popen[bytes]"
    connection: socket.socket
    answers: BufferedReader
    log: Path

    def ask(self, request: Request) -> Answer:
        """Send a request and wait for its answer."""
        self.connection.sendall(request.model_dump_json().encode() + b"\n")
        return self.answer()

    def hang_up(self) -> None:
        """Close the connection."""
        self.connection.shutdown(socket.SHUT_RDWR)

    def answer(self) -> Answer:
        """The next answer."""
        line = self.answers.readline()
        assert line, self.log.read_text()[-3000:]
        return ANSWER.validate_json(line)


@contextmanager
def learner_child(
    python: Path, spec: LearnerSpec, folder: Path, processes: int = 1
) -> Iterator[LearnerChild]:
    """Start a learner in ``folder``, of several processes if asked to; it is ready."""
    (folder / SPEC).write_text(spec.model_dump_json())
    command = [str(python), "-m"]
    if processes > 1:
        command += ["torch.distributed.run", "--standalone"]
        command += [f"--nproc-per-node={processes}", "--module"]
    listener = socket.socket(socket.AF_UNIX)
    with listener, open(folder / "log.txt", "wb") as log:
        listener.bind(str(spec.socket))
        listener.listen(1)
        listener.settimeout(DEADLINE)
        process = subprocess.Popen(
            [*command, CHILD, str(folder)],
            env=child_environment({"OMP_NUM_THREADS": "1"}),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            connection, _ = listener.accept()
            connection.settimeout(DEADLINE)
            with connection, connection.makefile("rb") as answers:
                child = LearnerChild(process, connection, answers, folder / "log.txt")
                answer = child.answer()
                assert isinstance(answer, Ready), answer
                yield child
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(DEADLINE)
