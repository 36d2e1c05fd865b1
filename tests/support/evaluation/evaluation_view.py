"""Evaluations as the gateway shows them."""

from typing import Any

from pydantic import TypeAdapter

from services.contracts.evaluation.evaluations import Evaluation
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.rewards.rewards import EvaluationGrader
from services.rewards.families import grader_metric


def evaluation(name: str, model: Any, file: str, accuracy: float, **fields: Any) -> Evaluation:
    """A succeeded evaluation of 10 items; ``fields`` replace others."""
    return Evaluation.model_validate(
        {
            **{"id": name, "created_at": 0, "status": "succeeded", "model": model, "file": file},
            **{"grader": {"type": "numeric"}, "sampling": {}, "metrics": metrics_of(accuracy)},
            **fields,
        }
    )


def evaluation_of_several(
    name: str, model: Any, accuracies: dict[str, float], **fields: Any
) -> Evaluation:
    """A succeeded evaluation of benchmarks by name, each with a file of that name."""
    benchmarks = [
        {
            **{"name": each, "benchmark": each, "file": each, "grader": {"type": "numeric"}},
            **{"sampling": {}, "metrics": metrics_of(accuracy)},
        }
        for each, accuracy in accuracies.items()
    ]
    one = evaluation(name, model, "", 0.0, grader=None, metrics=None).model_dump()
    return Evaluation.model_validate({**one, "file": None, "benchmarks": benchmarks, **fields})


def metrics_of(accuracy: float) -> dict[str, Any]:
    """Metrics of 10 items."""
    return {
        **{"samples": 10, "items": 10, "correct": round(10 * accuracy), "errors": 0},
        **{"accuracy": accuracy, "stderr": 0.1, "ci95": [0.0, 1.0]},
        **{"prompt_tokens": 1, "completion_tokens": 1, "generation_seconds": 1.0},
        "tokens_per_second": 1.0,
    }


def graded_by(grader: dict[str, Any], metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics with the main one that the family of the grader names, if it has one."""
    reward = TypeAdapter[Any](EvaluationGrader).validate_python(grader)
    main = grader_metric(reward, "grader", EvaluationMetrics.model_validate(metrics))
    return metrics if main is None else {**metrics, "grader_metric": main.model_dump()}
