"""The policy as it is sampled: vLLM servers whose weights follow the learner's."""

from services.trainer.rl.policy_server.engine import PolicyEngine, SyncReport
from services.trainer.rl.policy_server.verification import (
    EngineOutOfSync,
    LogprobReference,
    Tolerance,
)

__all__ = ["EngineOutOfSync", "LogprobReference", "PolicyEngine", "SyncReport", "Tolerance"]
