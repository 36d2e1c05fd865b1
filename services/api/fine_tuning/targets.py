"""The modules that LoRA is asked to adapt, compared with those of the model."""

from collections.abc import Iterator

from services.contracts.errors import InvalidRequest
from services.contracts.training.adaptation import TrainingType
from services.contracts.training.fine_tuning import Method
from services.models.registry import ResolvedModel
from services.models.tensor_headers import module_names

SHOWN = 12
_ALL = "all"
_TIED = "lm_head"
"""Not among the tensors where it is the input embedding."""


def check_targets(method: Method, model: ResolvedModel | None) -> None:
    """Raise `InvalidRequest` for a target that is not a module of the model.

    It would be left out, or end the job once the model is loaded.

    A target is a full name, or the end of one after a dot, as PEFT reads it. A model whose weights
    are not here is left to the job.
    """
    asked = list(_targets(method))
    if not asked or model is None or model.weights.path is None:
        return
    modules = module_names(model.weights.path)
    if not modules:
        return
    for field, target in asked:
        if not any(name == target or name.endswith(f".{target}") for name in (*modules, _TIED)):
            known = ", ".join(sorted({name.rpartition(".")[2] for name in modules})[:SHOWN])
            raise InvalidRequest(
                f"{target[:100]!r} is not a module of {model.id}, which has {known}",
                param=f"method.{method.type.value}.hyperparameters.{field}",
            )


def _targets(method: Method) -> Iterator[tuple[str, str]]:
    """Each target of an adapter, with the field that names it."""
    offline, online = method.offline, method.online
    if offline is not None and offline.training_type is TrainingType.LORA:
        for target in offline.lora.target_modules or ():
            yield "lora.target_modules", target
        for field in ("lora_target", "additional_target"):
            for target in str(offline.llamafactory.get(field) or "").split(","):
                if target.strip() not in ("", _ALL):
                    yield f"llamafactory.{field}", target.strip()
    if online is not None and online.hyperparameters.optimizer.training_type is TrainingType.LORA:
        for target in online.hyperparameters.optimizer.lora.target_modules or ():
            yield "optimizer.lora.target_modules", target
