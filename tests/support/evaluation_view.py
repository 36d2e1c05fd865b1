"""Evaluations as the gateway shows them."""

from typing import Any

from services.contracts.evaluations import Evaluation


def evaluation(name: str, model: Any, file: str, accuracy: float, **fields: Any) -> Evaluation:
    """A succeeded evaluation of 10 items; ``fields`` replace others."""
    metrics = {
        **{"samples": 10, "items": 10, "correct": round(10 * accuracy), "errors": 0},
        **{"accuracy": accuracy, "stderr": 0.1, "ci95": [0.0, 1.0]},
        **{"prompt_tokens": 1, "completion_tokens": 1, "generation_seconds": 1.0},
        "tokens_per_second": 1.0,
    }
    return Evaluation.model_validate(
        {
            **{"id": name, "created_at": 0, "status": "succeeded", "model": model, "file": file},
            **{"grader": {"type": "numeric"}, "sampling": {}, "metrics": metrics},
            **fields,
        }
    )
