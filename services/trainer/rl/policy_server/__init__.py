"""Sampling from the policy: vLLM servers whose weights follow the learner's."""

from services.trainer.rl.policy_server.engine import PolicyEngine

__all__ = ["PolicyEngine"]
