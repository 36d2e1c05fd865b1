"""Clients of vLLM servers that take token ids and give token ids."""

from services.inference.token_engine.base import PromptLogProbs
from services.inference.token_engine.vllm import CompletionsTokenEngine, VllmTokenEngine

__all__ = ["CompletionsTokenEngine", "PromptLogProbs", "VllmTokenEngine"]
