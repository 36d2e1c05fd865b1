"""What a LoRA adapter is, as its configuration says. A training that goes on with it keeps all of
this: rank, scale, dropout, targets and kind."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.contracts.base import JsonObject
from services.contracts.training.optimizer import LoraSettings
from services.core.artifacts import ADAPTER_CONFIG

ADAPTER_ARGUMENTS = frozenset(
    {
        *("additional_target", "lora_alpha", "lora_dropout", "lora_rank", "lora_target"),
        *("pissa_init", "use_dora", "use_llama_pro", "use_rslora"),
    }
)
"""LLaMA-Factory's arguments of a new adapter; it ignores them where it goes on with one
(model/adapter.py of 0.9.5)."""
_ALL = ("all", "all-linear")


class AdapterSettings(BaseModel):
    """The configuration of an adapter of PEFT's; targets may be a pattern of names."""

    model_config = ConfigDict(frozen=True)

    rank: int = Field(alias="r")
    lora_alpha: float
    lora_dropout: float = 0.0
    target_modules: list[str] | str | None = None
    modules_to_save: list[str] | None = None
    use_dora: bool = False
    use_rslora: bool = False

    @property
    def arguments(self) -> JsonObject:
        """The same as LLaMA-Factory's arguments; those that are off are left out."""
        alpha = self.lora_alpha
        targets = self.target_modules
        found: JsonObject = {
            "lora_rank": self.rank,
            "lora_alpha": int(alpha) if alpha.is_integer() else alpha,
            "lora_dropout": self.lora_dropout,
            "lora_target": targets if isinstance(targets, str) else ",".join(sorted(targets or ())),
        }
        if self.modules_to_save:
            found["additional_target"] = ",".join(sorted(self.modules_to_save))
        kinds = {"use_dora": self.use_dora, "use_rslora": self.use_rslora}
        return found | {name: True for name, used in kinds.items() if used}

    def keeps(self, name: str, value: Any, linear: Collection[str] = ()) -> bool:
        """Whether a value of one of `ADAPTER_ARGUMENTS` is the adapter's own.

        ``linear`` are the names of the model's linear modules, which the target ``all`` means;
        without them it is taken to be the same.
        """
        own = self.arguments.get(name)
        if name == "lora_target" and value in _ALL:
            adapted = {each.rpartition(".")[2] for each in str(own).split(",")}
            return own in _ALL or adapted.issuperset(linear)
        if name in ("lora_target", "additional_target"):
            return _names(value) == _names(own)
        return bool(value == own) if own is not None else not value

    def settings(self, given: LoraSettings) -> LoraSettings:
        """The adapter in place of the settings ``given``, which stay where it has something that
        they cannot say."""
        arguments, targets = self.arguments, self.target_modules
        own = {
            "rank": arguments["lora_rank"],
            "alpha": arguments["lora_alpha"],
            "dropout": arguments["lora_dropout"],
            "target_modules": targets if isinstance(targets, str) else sorted(targets or ()),
        }
        for name, value in own.items():
            try:
                given = LoraSettings.model_validate({**given.model_dump(), name: value})
            except ValidationError:
                continue
        return given


def read_adapter_settings(folder: Path) -> AdapterSettings | None:
    """The configuration of the adapter in a folder; None where it is missing or of another kind."""
    try:
        return AdapterSettings.model_validate_json((folder / ADAPTER_CONFIG).read_bytes())
    except (OSError, ValidationError):
        return None  # loading it says why


def _names(value: Any) -> set[str]:
    """Names that are separated by commas."""
    return {name.strip() for name in str(value or "").split(",")} - {""}
