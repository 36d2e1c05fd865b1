"""Clients of vLLM servers that take token ids and give token ids."""

from services.inference.token_engine.completions import CompletionsTokenEngine
from services.inference.token_engine.log_probs import PromptLogProbs
from services.inference.token_engine.vllm import VllmTokenEngine

__all__ = ["CompletionsTokenEngine", "PromptLogProbs", "VllmTokenEngine"]
