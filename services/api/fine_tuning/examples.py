"""Requests that the OpenAPI description shows."""

from fastapi.openapi.models import Example

CREATE: dict[str, Example] = {
    "lora": {
        "summary": "A LoRA adapter with OpenAI's fields alone",
        "value": {"model": "tiny-base", "training_file": "file-abc123", "suffix": "support-bot"},
    },
    "full": {
        "summary": "All weights, with an evaluation file and labels",
        "value": {
            "model": "tiny-base",
            "training_file": "file-abc123",
            "validation_file": "file-def456",
            "seed": 7,
            "method": {
                "type": "supervised",
                "supervised": {
                    "hyperparameters": {
                        "n_epochs": 3,
                        "batch_size": 16,
                        "learning_rate": 2e-5,
                        "training_type": "full",
                        "max_seq_length": 4096,
                    }
                },
            },
            "gpus": 2,
            "metadata": {"team": "support"},
        },
    },
    "hub": {
        "summary": "Rows of a data set of a hub, and an argument of LLaMA-Factory",
        "value": {
            "model": "tiny-base",
            "training_file": "hf://datasets/owner/name",
            "method": {
                "type": "supervised",
                "supervised": {
                    "hyperparameters": {
                        "lora": {"rank": 32},
                        "llamafactory": {"neftune_noise_alpha": 5.0},
                    }
                },
            },
        },
    },
}
