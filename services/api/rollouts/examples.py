"""Requests that the OpenAPI description shows."""

from fastapi.openapi.models import Example

CREATE: dict[str, Example] = {
    "sandbox": {
        "summary": "A registered model that runs code, rewarded for the right box",
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
