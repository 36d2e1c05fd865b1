"""A learner without weights, as a process: what it does wrong stands in ``behavior``."""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from services.trainer.rl.batch import TrainingBatch
from services.trainer.rl.learner.protocol import (
    REQUEST,
    SPEC,
    Answer,
    Done,
    Failed,
    Finish,
    LearnerSpec,
    Probe,
    Ready,
    Request,
    Update,
)

BEHAVIOR = "behavior"
ENDED = "ended"
"""Written at the end: the number of threads that it would compute with."""


def main(job_dir: Path) -> None:
    spec = LearnerSpec.model_validate_json((job_dir / SPEC).read_bytes())
    file = job_dir / BEHAVIOR
    behavior = file.read_text() if file.exists() else ""
    print("the learner says something", flush=True)
    if behavior == "exit":
        sys.exit(3)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(spec.socket))
        stream = connection.makefile("rwb")

        def send(answer: Answer) -> None:
            stream.write(answer.model_dump_json().encode() + b"\n")
            stream.flush()

        send(Ready(trainable_parameters=7))
        for line in stream:
            request = REQUEST.validate_json(line)
            if behavior == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if behavior == "garbage":
                stream.write(b"not an answer\n")
                stream.flush()
                time.sleep(60)
            if behavior == "fail":
                send(Failed(code="diverged", message="the loss is nan", param="learning_rate"))
                return
            send(answer_to(request))
            if isinstance(request, Finish):
                (job_dir / ENDED).write_text(
                    json.dumps([os.environ.get(name) for name in ("OMP_NUM_THREADS", "MKL_CBWR")])
                )
                return


def answer_to(request: Request) -> Done:
    match request:
        case Update(batch=batch):
            tokens = sum(
                len(sequence.token_ids) for sequence in TrainingBatch.load(batch).sequences
            )
            return Done(seconds=0.0, metrics={"tokens": float(tokens)})
        case Probe(token_ids=token_ids):
            return Done(seconds=0.0, log_probs=[[-1.0] * (len(ids) - 1) for ids in token_ids])
        case _:
            return Done(seconds=0.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
