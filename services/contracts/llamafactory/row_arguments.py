"""LLaMA-Factory's arguments that determine what the trainer sees of a row, for OpenAPI. Others are
accepted too; `services.contracts.llamafactory.arguments` checks them all.
"""

from collections.abc import Mapping
from typing import Any

from services.contracts.llamafactory.idle import idle
from services.contracts.training.stages import Stage


def row_arguments(stage: Stage) -> dict[str, Mapping[str, Any]]:
    """The JSON Schema of each that has an effect in a stage."""
    return {
        name: schema
        for name, schema in ROW_ARGUMENTS.items()
        if idle(name, stage, {name: True}) is None
    }


ROW_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "cutoff_len": {
        "type": "integer",
        "description": "Tokens per sequence, before max_seq_length.",
    },
    "default_system": {
        "type": "string",
        "description": "The system message of rows without one.",
    },
    "mask_history": {
        "type": "boolean",
        "default": False,
        "description": "Whether only the last turn has a loss.",
    },
    "packing": {
        "type": "boolean",
        "description": "Whether sequences hold several rows; text is cut into sequences, not off.",
    },
    "train_on_prompt": {
        "type": "boolean",
        "default": False,
        "description": "Whether what the model reads has a loss too.",
    },
}
