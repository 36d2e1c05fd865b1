"""Request examples of the OpenAPI description are valid requests."""

import pytest
from fastapi.openapi.models import Example
from pydantic import BaseModel

from services.api.examples import DEPLOYMENT as DEPLOYMENTS
from services.api.examples import EVALUATION as EVALUATIONS
from services.api.examples import FINE_TUNING as FINE_TUNES
from services.api.examples import MODEL as MODELS
from services.api.examples import ROLLOUT as ROLLOUTS
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.llamafactory.arguments import check_arguments
from services.contracts.models.registered import RegisterModel
from services.contracts.rollouts.rollouts import CreateRollout
from services.contracts.serving import DeployModel
from services.contracts.training.fine_tuning import CreateFineTuningJob


@pytest.mark.parametrize(
    ("body", "examples"),
    [
        (CreateFineTuningJob, FINE_TUNES),
        (CreateEvaluation, EVALUATIONS),
        (CreateRollout, ROLLOUTS),
        (RegisterModel, MODELS),
        (DeployModel, DEPLOYMENTS),
    ],
)
def test_openapi_request_examples_are_valid(
    body: type[BaseModel], examples: dict[str, Example]
) -> None:
    for example in examples.values():
        parsed = body.model_validate(example["value"])
        if not isinstance(parsed, CreateFineTuningJob) or parsed.method is None:
            continue
        if parsed.method.supervised is not None:
            check_arguments(parsed.method.as_offline.llamafactory)
