"""The internals of LLaMA-Factory that we hook into; written for version 0.9.5.

Each stage is one function: the phases inside show only where it calls other functions of
``train.STAGE.workflow`` by name.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from services.contracts.llamafactory.names import Stage
from services.trainer.offline.library.compatibility import close_seams

_PHASES = {
    "load_tokenizer": "loading_model",
    "get_dataset": "tokenizing",
    "load_model": "loading_model",
}


def llamafactory_module(name: str) -> ModuleType:
    """Import ``llamafactory.<name>`` so that it runs beside the installed libraries."""
    close_seams()
    return import_module(f"llamafactory.{name}")


def take_tokenizer_from(folder: Path) -> None:
    """Make LLaMA-Factory load the tokenizer of every model from ``folder``, and leave its chat
    template as it is there: the library replaces some and adds one where there is none."""
    # It corrects what transformers says of missing packages, before trl asks.
    llamafactory_module("extras.packages")
    loader, template = llamafactory_module("model.loader"), llamafactory_module("data.template")
    setattr(loader, "AutoTokenizer", _TokenizerIn(folder))  # noqa: B010 - modules are typed
    template.Template.fix_jinja_template = lambda _template, _tokenizer: None


class _TokenizerIn:
    """Stands in for transformers' AutoTokenizer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def from_pretrained(self, _model: str, **settings: Any) -> Any:
        settings["revision"] = None
        return import_module("transformers").AutoTokenizer.from_pretrained(
            str(self._folder), **settings
        )


def load_in_float32() -> None:
    """Make LLaMA-Factory load every model in float32, whatever its weights are stored in."""
    loader = llamafactory_module("model.loader")
    for name in MODEL_CLASSES:
        setattr(loader, name, _InFloat32(getattr(loader, name)))


MODEL_CLASSES = ("AutoModelForCausalLM", "AutoModelForImageTextToText")


class _InFloat32:
    """Stands in for one of transformers' auto classes."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def from_pretrained(self, **settings: Any) -> Any:
        settings["torch_dtype"] = import_module("torch").float32
        return self._original.from_pretrained(**settings)


def report_phases(stage: Stage, enter: Callable[[str], None]) -> None:
    """Call ``enter`` with the phase when each of these steps begins."""
    workflow = llamafactory_module(f"train.{stage.value}.workflow")
    for name, phase in _PHASES.items():
        setattr(workflow, name, _entering(getattr(workflow, name), phase, enter))


def _entering(
    function: Callable[..., Any], phase: str, enter: Callable[[str], None]
) -> Callable[..., Any]:
    def entering(*args: Any, **kwargs: Any) -> Any:
        enter(phase)
        return function(*args, **kwargs)

    return entering
