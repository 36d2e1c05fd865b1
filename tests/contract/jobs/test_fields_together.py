"""An error about several fields of a request names one of them, with its path."""

from typing import Any

import httpx
import pytest

AIME = {"benchmark": "aime24", "file": "file-1"}
EVALUATION = {"model": "base", "file": "file-1"}
ROLLOUT = {"model": "base", "file": "file-1"}
SEVERAL = {"model": "base", "benchmarks": [AIME, {"name": "g", "file": "f", "samples_per_item": 2}]}
REINFORCEMENT = {
    "rewards": [{"name": "r", "reward": {"type": "retool"}}],
    "hyperparameters": {"loss": {"objective": "cispo", "ratio": "sequence"}},
}


def tune(type_: str, settings: Any, **fields: Any) -> dict[str, Any]:
    """A fine-tune by a method with these settings."""
    method = {"type": type_, type_: settings}
    return {"model": "base", "training_file": "file-1", "method": method, **fields}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("evaluations", {"model": "base"}, "file"),
        ("evaluations", {**EVALUATION, "samples_per_item": 4}, "samples_per_item"),
        ("evaluations", {**EVALUATION, "metrics": "fork"}, "metrics"),
        ("evaluations", SEVERAL, "benchmarks[1].samples_per_item"),
        ("evaluations", {**SEVERAL, "benchmarks": [AIME, {"file": "f"}]}, "benchmarks[1].name"),
        (
            "evaluations",
            {"model": "base", "benchmarks": [AIME], "samples_per_item": 4},
            "samples_per_item",
        ),
        (
            "evaluations",
            {**EVALUATION, "benchmark": {"grader": {"type": "exact"}, "direction": "minimize"}},
            "benchmark.direction",
        ),
        (
            "evaluations",
            {
                **EVALUATION,
                "engine": {"speculation": {"method": "ngram", "min_match": 4, "max_match": 2}},
            },
            "engine.speculation.min_match",
        ),
        (
            "rollouts",
            {
                **ROLLOUT,
                "rewards": [
                    {"name": "r", "reward": {"type": "retool", "cap": True, "plain": True}}
                ],
            },
            "rewards[0].reward.plain",
        ),
        (
            "rollouts",
            {**ROLLOUT, "engine": {"speculation": {}}, "sampling": {"min_p": 0.1}},
            "sampling.min_p",
        ),
        ("rollouts", {"model": "base"}, "file"),
        ("rollouts", {**ROLLOUT, "devices": [0, 0]}, "devices"),
        (
            "fine_tuning/jobs",
            tune("reinforcement", REINFORCEMENT),
            "method.reinforcement.hyperparameters.loss.ratio",
        ),
        (
            "fine_tuning/jobs",
            tune("dpo", {"hyperparameters": {"loss": "simpo", "reference_model": "base"}}),
            "method.dpo.hyperparameters.reference_model",
        ),
        ("fine_tuning/jobs", tune("dpo", {}, mixing={"strategy": "concat"}), "mixing"),
        (
            "fine_tuning/jobs",
            tune("ppo", {"hyperparameters": {"loss": {"importance_cap": 2}}}),
            "method.ppo.hyperparameters.loss.importance_cap",
        ),
        ("models", {"id": "new", "folder": "base", "revision": "main"}, "revision"),
    ],
)
def test_an_error_about_several_fields_names_one(
    http: httpx.Client, path: str, body: dict[str, Any], param: str
) -> None:
    answer = http.post(f"/v1/{path}", json=body)

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param
    assert error["message"].startswith(f"{param}: ")
    assert error["details"][0]["param"] == param
