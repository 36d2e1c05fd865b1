"""Arguments that affect rows, as the OpenAPI description lists them."""

from typing import Any

import pytest

from services.contracts.llamafactory.arguments import check_arguments
from services.contracts.llamafactory.idle import row_arguments
from services.contracts.llamafactory.names import Stage
from services.contracts.training.fine_tuning import Method

VALUES: dict[str, Any] = {"integer": 64, "string": "Be brief.", "boolean": True}


@pytest.mark.parametrize("stage", [Stage.PT, Stage.SFT, Stage.RM, Stage.DPO, Stage.KTO])
def test_documented_arguments_are_accepted_in_their_stage(stage: Stage) -> None:
    described = row_arguments(stage)
    assert "cutoff_len" in described
    check_arguments({name: VALUES[schema["type"]] for name, schema in described.items()}, stage)


def test_undocumented_arguments_are_accepted() -> None:
    given = {"llamafactory": {"val_size": 0.1, "mask_history": True}}
    method = Method.model_validate({"type": "supervised", "supervised": {"hyperparameters": given}})
    assert method.as_offline.llamafactory == given["llamafactory"]
