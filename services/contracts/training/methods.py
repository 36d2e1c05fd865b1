"""The training methods by name, without their settings."""

from enum import StrEnum


class MethodType(StrEnum):
    """How a model is trained."""

    SUPERVISED = "supervised"
    DPO = "dpo"
    KTO = "kto"
    REWARD_MODEL = "reward_model"
    PRETRAINING = "pretraining"
    REINFORCEMENT = "reinforcement"  # GRPO, DAPO, Dr.GRPO, GSPO
    PPO = "ppo"
    DISTILLATION = "distillation"

    @property
    def is_online(self) -> bool:
        """Whether it learns from what the model samples meanwhile: its rows are prompts."""
        return self in {MethodType.REINFORCEMENT, MethodType.PPO, MethodType.DISTILLATION}
