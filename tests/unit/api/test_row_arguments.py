"""The arguments that decide on rows, as the OpenAPI description names them."""

from typing import Any

import pytest

from services.contracts.fine_tuning import Method
from services.contracts.llamafactory import catalogue, check_arguments
from services.contracts.row_arguments import ROW_ARGUMENTS, row_arguments
from services.contracts.stages import Stage

VALUES: dict[str, Any] = {"integer": 64, "string": "Be brief.", "boolean": True}


@pytest.mark.parametrize("stage", [Stage.PT, Stage.SFT, Stage.RM, Stage.DPO, Stage.KTO])
def test_what_is_described_for_a_stage_is_accepted_in_it(stage: Stage) -> None:
    described = row_arguments(stage)
    assert "cutoff_len" in described
    check_arguments({name: VALUES[schema["type"]] for name, schema in described.items()}, stage)


@pytest.mark.parametrize("name", ROW_ARGUMENTS)
def test_types_and_defaults_are_those_of_the_library(name: str) -> None:
    known = catalogue().arguments[name]
    assert ROW_ARGUMENTS[name]["type"] in known.types
    if "default" in ROW_ARGUMENTS[name]:
        assert ROW_ARGUMENTS[name]["default"] == known.default


def test_arguments_that_are_not_described_are_accepted() -> None:
    given = {"llamafactory": {"val_size": 0.1, "mask_history": True}}
    method = Method.model_validate({"type": "supervised", "supervised": {"hyperparameters": given}})
    assert method.as_offline.llamafactory == given["llamafactory"]
