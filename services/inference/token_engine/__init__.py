"""Clients of vLLM servers that take and return token ids."""

from services.inference.token_engine.base import PromptLogProbs
from services.inference.token_engine.vllm import CompletionsTokenEngine, VllmTokenEngine

__all__ = ["CompletionsTokenEngine", "PromptLogProbs", "VllmTokenEngine"]
