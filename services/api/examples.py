"""Request examples that the OpenAPI description shows."""

from fastapi.openapi.models import Example

FINE_TUNING: dict[str, Example] = {
    "lora": {
        "summary": "A LoRA adapter, with only OpenAI's fields",
        "value": {"model": "tiny-base", "training_file": "file-abc123", "suffix": "support-bot"},
    },
    "full": {
        "summary": "Full fine-tuning, with a validation file and metadata",
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
        "summary": "A hub data set, and an argument of LLaMA-Factory",
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
        "summary": "DAPO with a code tool, rewarded for a correct boxed answer",
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
        "summary": "PPO with a value model",
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
        "summary": "On-policy distillation from a larger model with the same tokenizer",
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


EVALUATION: dict[str, Example] = {
    "registered": {
        "summary": "A registered model, graded by the last number of its answer",
        "value": {
            "model": "tiny-base",
            "file": "file-abc123",
            "grader": {"type": "numeric"},
            "sampling": {"max_tokens": 256},
            "metadata": {"suite": "arithmetic"},
        },
    },
    "remote": {
        "summary": "A model behind a URL that the operator allows",
        "value": {
            "model": {"base_url": "https://models.example.com/v1", "model": "big"},
            "file": "file-abc123",
            "grader": {"type": "regex", "pattern": "#### (?P<answer>-?[0-9]+)"},
            "max_samples": 200,
            "max_concurrency": 16,
        },
    },
    "tools": {
        "summary": "A model that may run code before it answers",
        "value": {
            "model": "tiny-base",
            "file": "file-abc123",
            "benchmark": "gsm8k",
            "sampling": {"max_tokens": 1024},
            "tools": [{"class_name": "sandbox"}],
            "multi_turn": {"max_tool_calls": 4, "max_total_response_length": 4096},
        },
    },
    "several": {
        "summary": "Several benchmarks, answered by one engine",
        "value": {
            "model": "tiny-base",
            "benchmarks": [
                {"benchmark": "gsm8k", "file": "file-abc123", "split": "final"},
                {"name": "capitals", "file": "file-abc124", "grader": {"type": "exact"}},
            ],
            "sampling": {"max_tokens": 256},
        },
    },
}


BATCH: dict[str, Example] = {
    "registered": {
        "summary": "Chat completions of a registered model",
        "value": {
            "input_file_id": "file-abc123",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
        },
    },
    "embeddings": {
        "summary": "Embeddings of a registered model",
        "value": {
            "input_file_id": "file-abc123",
            "endpoint": "/v1/embeddings",
            "completion_window": "24h",
        },
    },
    "remote": {
        "summary": "Embeddings of a server that the operator allows",
        "value": {
            "input_file_id": "file-abc123",
            "endpoint": "/v1/embeddings",
            "completion_window": "24h",
            "base_url": "https://models.example.com/v1",
        },
    },
}


ROLLOUT: dict[str, Example] = {
    "sandbox": {
        "summary": "A registered model that runs code, rewarded for a correct boxed answer",
        "value": {
            "model": "tiny-base",
            "file": "file-abc123",
            "prompt_type": "qwen_retool",
            "samples_per_prompt": 8,
            "tools": [{"class_name": "sandbox"}],
            "multi_turn": {
                "multi_turn_enable": True,
                "max_tool_calls": 4,
                "max_total_response_length": 2048,
            },
            "rewards": [{"name": "answer", "reward": {"type": "retool"}}],
        },
    },
    "inline": {
        "summary": "One question to a model behind a URL that the operator allows",
        "value": {
            "model": {"base_url": "https://models.example.com/v1", "model": "big"},
            "tokenizer": "big-weights",
            "prompts": [{"question": "Who wrote Faust?", "gold": "Goethe"}],
            "prompt_type": "qwen_search_tool",
            "tools": [{"class_name": "search"}],
            "multi_turn": {"multi_turn_enable": True, "max_total_response_length": 4096},
            "rewards": [{"name": "em", "reward": {"type": "search_em"}}],
        },
    },
}


INDEXING: dict[str, Example] = {
    "words": {
        "summary": "Keyword search with BM25",
        "value": {"index": "handbook", "file": "file-abc123"},
    },
    "hybrid": {
        "summary": "Hybrid search, with BM25 and vectors",
        "value": {
            "index": "wiki",
            "file": "file-abc123",
            "mode": "hybrid",
            "encoder": "e5-base",
            "dense": "ivfpq",
            "metadata": {"snapshot": "2026-11"},
        },
    },
}


MODEL: dict[str, Example] = {
    "folder": {
        "summary": "A folder under the operator's model root",
        "value": {"id": "tiny-base", "folder": "tiny"},
    },
    "adapter": {
        "summary": "An adapter in a folder, with the model it belongs to",
        "value": {"id": "tiny-support", "folder": "adapters/support", "base": "tiny-base"},
    },
    "hub": {
        "summary": "A repository of a hub",
        "value": {"id": "owner/small", "hub_id": "owner/small", "revision": "main"},
    },
}


_EXACT = {
    "type": "string_check",
    "name": "exact",
    "operation": "eq",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.answer }}",
}
_FORMULA = {
    "type": "multi",
    "name": "both",
    "graders": {
        "exact": _EXACT,
        "alike": {
            "type": "text_similarity",
            "name": "alike",
            "input": "{{ sample.output_text }}",
            "reference": "{{ item.answer }}",
            "evaluation_metric": "rouge_l",
        },
    },
    "calculate_output": "0.8 * exact + 0.2 * alike",
}

VALIDATE_GRADER: dict[str, Example] = {
    "formula": {"summary": "A formula over two graders", "value": {"grader": _FORMULA}},
}
RUN_GRADER: dict[str, Example] = {
    "exact": {
        "summary": "One of OpenAI's graders",
        "value": {"grader": _EXACT, "model_sample": "Paris", "item": {"answer": "Paris"}},
    },
    "retool": {
        "summary": "A reward of Temper's",
        "value": {
            "grader": {"type": "retool", "equivalence": "math"},
            "model_sample": "So it is \\boxed{\\frac{1}{2}}",
            "item": {"gold": "0.5"},
        },
    },
}


PROGRAM: dict[str, Example] = {
    "python": {
        "summary": "A Python program that reads its input",
        "value": {"language": "python", "code": "print(1 + int(input()))", "stdin": "41"},
    },
}

CASES: dict[str, Example] = {
    "cases": {
        "summary": "A Python program, with the expected output for two inputs",
        "value": {
            "language": "python",
            "code": "print(2 * int(input()))",
            "cases": [
                {"stdin": "2", "expected_output": "4"},
                {"stdin": "21", "expected_output": "42"},
            ],
        },
    },
}

CELLS: dict[str, Example] = {
    "cells": {
        "summary": "Two cells; the second uses variables of the first",
        "value": {"cells": ["import math\nradius = 2", "math.pi * radius**2"]},
    },
}

QUERIES: dict[str, Example] = {
    "queries": {
        "summary": "Two queries, with scores",
        "value": {"queries": ["sort a list", "close a file"], "topk": 3, "return_scores": True},
    },
}

SEARCH: dict[str, Example] = {
    "words": {
        "summary": "One query, with highlighted matches",
        "value": {"query": "sort a list in place", "topk": 5, "highlights": True},
    },
}


CHECK: dict[str, Example] = {
    "demonstrations": {
        "summary": "Demonstrations, with lengths in tokens of a model",
        "value": {"training_file": "file-abc123", "model": "tiny-base"},
    },
    "preferences": {
        "summary": "Preference pairs for direct preference optimization",
        "value": {"training_file": "file-abc123", "method": {"type": "dpo"}},
    },
}

EXAMPLES: dict[str, Example] = {
    "supervised": {"summary": "For supervised fine-tuning", "value": {"model": "tiny-base"}},
    "last turn": {
        "summary": "Loss on the last turn only, from row 101 on",
        "value": {
            "model": "tiny-base",
            "method": {
                "type": "supervised",
                "supervised": {"hyperparameters": {"llamafactory": {"mask_history": True}}},
            },
            "after": "100",
        },
    },
}

MERGE: dict[str, Example] = {
    "default": {"summary": "A model named ft:...:merged:...", "value": {}},
    "named": {"summary": "With a suffix of your own", "value": {"suffix": "support-v2"}},
}

EXPORT: dict[str, Example] = {
    "folder": {"summary": "A folder", "value": {"destination": "/srv/exports/support-v2"}},
    "hub": {"summary": "A hub repository", "value": {"destination": "hf://my-team/support-v2"}},
    "store": {"summary": "A store", "value": {"destination": "s3://my-models/support-v2"}},
}

MODEL_DOWNLOAD: dict[str, Example] = {
    "default": {"summary": "When a worker is free", "value": {}},
}

DEPLOYMENT: dict[str, Example] = {
    "default": {"summary": "Until it is idle", "value": {}},
    "warm": {"summary": "Until it is undeployed", "value": {"keep_warm": True}},
}

CHAT: dict[str, Example] = {
    "stream": {
        "summary": "A streamed chat completion",
        "value": {
            "model": "my-model",
            "messages": [{"role": "user", "content": "What is 2 + 2?"}],
            "stream": True,
        },
    },
}

MESSAGE: dict[str, Example] = {
    "message": {
        "summary": "A question",
        "value": {
            "model": "my-model",
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": "What is 2 + 2?"}],
        },
    },
}

RESPONSE: dict[str, Example] = {
    "question": {
        "summary": "A question",
        "value": {"model": "my-model", "input": "What is 2 + 2?"},
    },
    "background": {
        "summary": "An answer that is retrieved later",
        "value": {"model": "my-model", "input": "Prove it.", "background": True},
    },
}

COMPLETION: dict[str, Example] = {
    "text": {"summary": "A text", "value": {"model": "my-model", "prompt": "2 + 2 ="}},
}

EMBEDDING: dict[str, Example] = {
    "text": {"summary": "A text", "value": {"model": "my-model", "input": "2 + 2"}},
}

DATASET: dict[str, Example] = {
    "default": {
        "summary": "An uploaded file under a name",
        "value": {
            "name": "sums",
            "file": "file-def456",
            "description": "Worked sums.",
            "license": "mit",
        },
    }
}
CAMPAIGN: dict[str, Example] = {
    "default": {
        "summary": "Three attempts at a better model",
        "value": {
            "base_model": "tiny-base",
            "scenario": "Add two numbers and answer with the sum alone.",
            "file": "file-abc123",
            "datasets": [{"name": "sums", "file": "file-def456", "description": "Worked sums."}],
            "llm": {"base_url": "http://127.0.0.1:4000/v1", "model": "strong"},
            "budget": {"loops": 3, "llm_tokens": 500_000},
        },
    },
}
