"""Loads vLLM's class of each of some architectures.

    python -m tests.support.models.engine_families REPORT ARCHITECTURE...

in the vLLM runtime. REPORT gets a JSON object: why a class cannot be loaded, or null.
"""

import json
import sys
from pathlib import Path

from vllm.model_executor.models.registry import ModelRegistry


def problem_of(architecture: str) -> str | None:
    """Why the engine has no class for an architecture."""
    try:
        ModelRegistry.models[architecture].load_model_cls()
    except Exception as error:  # what fails is the result
        return f"{type(error).__name__}: {error}"[:200]
    return None


if __name__ == "__main__":
    report, *architectures = sys.argv[1:]
    Path(report).write_text(json.dumps({each: problem_of(each) for each in architectures}))
