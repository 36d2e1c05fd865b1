"""Reports which part of LLaMA-Factory's sft stage is running.

Its stage is one function; the phases inside it show only where it calls other functions by name.
Holds for LLaMA-Factory 0.9.5: ``llamafactory.train.sft.workflow`` with the names below.
"""

from collections.abc import Callable
from typing import Any

from services.trainer.sft.library import llamafactory_module

_PHASES = {
    "load_tokenizer": "loading_model",
    "get_dataset": "tokenizing",
    "load_model": "loading_model",
}


def report_phases(enter: Callable[[str], None]) -> None:
    """Have ``enter`` called with the phase at each of these steps."""
    workflow = llamafactory_module("train.sft.workflow")
    for name, phase in _PHASES.items():
        setattr(workflow, name, _entering(getattr(workflow, name), phase, enter))


def _entering(
    function: Callable[..., Any], phase: str, enter: Callable[[str], None]
) -> Callable[..., Any]:
    def entering(*args: Any, **kwargs: Any) -> Any:
        enter(phase)
        return function(*args, **kwargs)

    return entering
