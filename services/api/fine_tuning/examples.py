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
    "reinforcement": {
        "summary": "DAPO with a code tool, rewarded for the right answer in its last box",
        "value": {
            "model": "tiny-base",
            "training_file": "file-abc123",
            "method": {
                "type": "reinforcement",
                "reinforcement": {
                    "rewards": [{"name": "answer", "reward": {"type": "retool"}}],
                    "hyperparameters": {
                        "steps": 200,
                        "prompts_per_step": 32,
                        "samples_per_prompt": 8,
                        "prompt_type": "qwen_retool",
                        "tools": [{"class_name": "sandbox"}],
                        "multi_turn": {
                            "multi_turn_enable": True,
                            "max_tool_calls": 4,
                            "max_total_response_length": 4096,
                        },
                        "dynamic_sampling": {"max_batches": 10},
                        "overlong": {"buffer": 512},
                        "max_staleness": 1,
                    },
                },
            },
        },
    },
    "ppo": {
        "summary": "PPO with a critic of its own",
        "value": {
            "model": "tiny-base",
            "training_file": "file-abc123",
            "method": {
                "type": "ppo",
                "ppo": {
                    "rewards": [{"name": "match", "reward": {"type": "search_em"}}],
                    "hyperparameters": {"prompts_per_step": 64, "mini_batches": 4, "epochs": 2},
                },
            },
        },
    },
    "distillation": {
        "summary": "On-policy distillation of a larger model of the same tokenizer",
        "value": {
            "model": "tiny-base",
            "training_file": "file-abc123",
            "method": {
                "type": "distillation",
                "distillation": {
                    "hyperparameters": {
                        "teacher": {"type": "model", "model": "tiny-base"},
                        "lmbda": 1.0,
                        "beta": 1.0,
                    }
                },
            },
        },
    },
}
