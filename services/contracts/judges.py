"""Language models that judge answers."""

from typing import Annotated

from pydantic import Field

from services.contracts.evaluations import RemoteModel

JudgeName = Annotated[str, Field(min_length=1, max_length=200)]

JudgeModel = Annotated[
    JudgeName | RemoteModel,
    Field(
        description="A name of the operator's TEMPER_JUDGE_MODELS, or a model behind a URL whose "
        "origin the operator allows."
    ),
]
"""Who judges."""
