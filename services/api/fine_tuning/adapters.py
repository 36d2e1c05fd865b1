"""Trainings that go on with an adapter: it keeps its own rank, scale, dropout, targets and kind."""

from collections.abc import Iterator, Sequence
from typing import Any

from services.contracts.errors import InvalidRequest
from services.contracts.training.fine_tuning import Method
from services.contracts.training.optimizer import LoraSettings, TrainingType
from services.models.adapter_settings import (
    ADAPTER_ARGUMENTS,
    AdapterSettings,
    read_adapter_settings,
)
from services.models.capacity.shape import read_shape
from services.models.registry import ResolvedModel

_OF_SETTINGS = {
    "rank": "lora_rank",
    "alpha": "lora_alpha",
    "dropout": "lora_dropout",
    "target_modules": "lora_target",
}
"""LLaMA-Factory's names of the settings of an adapter."""
_DEFAULTS = LoraSettings()


def with_own_adapter(method: Method, model: ResolvedModel | None) -> Method:
    """The method with the settings of the adapter that it trains further, which are the ones that
    count: for its memory, its result and its lineage.

    Raises `InvalidRequest` for a given setting that the adapter has not. A method that starts from
    whole weights, or trains them, stays as it is.
    """
    if method.training_type is not TrainingType.LORA or model is None or model.adapter is None:
        return method
    adapter = read_adapter_settings(model.adapter)
    if adapter is None:
        return method
    shape = None if model.weights.path is None else read_shape(model.weights.path)
    linear = () if shape is None else [module.name for module in shape.modules]
    for field, name, value in _given(method):
        if not adapter.keeps(name, value, linear):
            raise _ignored(method, field, name, value, model, adapter)
    return _filled(method, adapter)


def _ignored(
    method: Method,
    field: str,
    name: str,
    value: Any,
    model: ResolvedModel,
    adapter: AdapterSettings,
) -> InvalidRequest:
    own = adapter.arguments.get(name)
    has = f"has {name} {own}" if own is not None else f"is without {name}"
    return InvalidRequest(
        f"{model.id} {has} and is trained further as it is, not with {value!r}: leave the field "
        "out, or merge the adapter into its base first, for a new one",
        param=f"method.{method.type.value}.hyperparameters.{field}",
    )


def _given(method: Method) -> Iterator[tuple[str, str, Any]]:
    """The settings of an adapter that a request gives: field, LLaMA-Factory's name, and value.

    Of `LoraSettings` those that differ from their defaults: clients send the defaults as well.
    Online training has no dropout, whatever the adapter says.
    """
    offline, online = method.offline, method.online
    if online is not None:
        optimizer = online.hyperparameters.optimizer
        names = [name for name in _OF_SETTINGS if name != "dropout"]
        yield from _given_settings("optimizer.lora", optimizer.lora, names)
    if offline is not None:
        yield from _given_settings("lora", offline.lora, list(_OF_SETTINGS))
        for name in sorted(ADAPTER_ARGUMENTS & offline.llamafactory.keys()):
            if (value := offline.llamafactory[name]) is not None:
                yield f"llamafactory.{name}", name, value


def _given_settings(
    field: str, lora: LoraSettings, names: Sequence[str]
) -> Iterator[tuple[str, str, Any]]:
    for name in names:
        value = getattr(lora, name)
        if value != getattr(_DEFAULTS, name):
            shown = ",".join(value) if isinstance(value, list) else value
            yield f"{field}.{name}", _OF_SETTINGS[name], shown


def _filled(method: Method, adapter: AdapterSettings) -> Method:
    """The method with the settings of the adapter in place of defaults."""
    chosen = getattr(method, method.type.value)
    settings = chosen.hyperparameters
    if method.online is None:
        changed = settings.model_copy(update={"lora": adapter.settings(settings.lora)})
    else:
        optimizer = settings.optimizer
        own = adapter.settings(optimizer.lora).model_copy(update={"dropout": 0.0})
        changed = settings.model_copy(
            update={"optimizer": optimizer.model_copy(update={"lora": own})}
        )
    filled = chosen.model_copy(update={"hyperparameters": changed})
    return method.model_copy(update={method.type.value: filled})
