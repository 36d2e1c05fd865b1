"""The process that holds a reward model.

Run as ``python -m services.rewards.reward_models.child FOLDER MAX_LENGTH [--trusted]`` in a
runtime that has torch and transformers; with --trusted the model's own code may run. Answers
{"conversations": [[message, ...], ...], "tools": [[schema, ...], ...]} with a list of scores.
"""

import sys
from pathlib import Path

from services.core.process.worker_child import Answer, serve


def load_classifier(folder: Path, max_length: int, *, trusted: bool = False) -> Answer:
    """Load the model; the answer function scores a batch of conversations."""
    # Importing takes seconds and may fail, which the parent must be told.
    from services.rewards.reward_models.classifier import Classifier  # noqa: PLC0415

    classifier = Classifier(folder, max_length, trusted=trusted)
    return lambda request: classifier.score(request["conversations"], request["tools"])


if __name__ == "__main__":
    folder, max_length, *options = sys.argv[1:]
    serve(lambda: load_classifier(Path(folder), int(max_length), trusted=bool(options)))
