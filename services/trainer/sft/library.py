"""The one way to LLaMA-Factory's modules. Holds for LLaMA-Factory 0.9.5.

It imports torchaudio wherever it prepares data, also for text, and torchaudio has no wheel that
loads beside a CPU build of torch. Text training calls nothing in it.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def llamafactory_module(name: str) -> ModuleType:
    """Import ``llamafactory.<name>``, with an empty torchaudio where there is none."""
    if "torchaudio" not in sys.modules and find_spec("torchaudio") is None:
        # transformers is asked first, so that it goes on knowing that torchaudio is missing.
        import_module("transformers.utils.import_utils").is_torchaudio_available()
        stand_in = ModuleType("torchaudio")
        stand_in.__spec__ = ModuleSpec("torchaudio", loader=None)
        sys.modules["torchaudio"] = stand_in
    return import_module(f"llamafactory.{name}")
