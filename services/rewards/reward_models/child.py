"""The process that holds a reward model.

``python -m services.rewards.reward_models.child FOLDER MAX_LENGTH`` in a runtime that has torch and
transformers. Standard input and output carry JSON lines: after {"ready": true}, or {"error": text}
and the end, each {"conversations": [[message, ...], ...]} is answered with {"scores": [number,
...]} or {"error": text}.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import IO, Any

PR_SET_PDEATHSIG = 1


def main(folder: Path, max_length: int) -> None:
    """Answer until standard input ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        # It takes seconds, and whoever waits is told when it fails.
        from services.rewards.reward_models.classifier import Classifier  # noqa: PLC0415

        classifier = Classifier(folder, max_length)
    except Exception as error:
        _say(answers, {"error": f"it cannot be loaded: {_told(error)}"})
        return
    _say(answers, {"ready": True})
    for line in sys.stdin:
        try:
            scores = classifier.score(json.loads(line)["conversations"])
        except Exception as error:
            _say(answers, {"error": _told(error)})
        else:
            _say(answers, {"scores": scores})


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:1000]


def _say(answers: IO[str], message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
