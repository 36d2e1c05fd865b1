"""The seams between LLaMA-Factory 0.9.5 and the libraries beside it, newer than it allows.

A seam is closed here, in the memory of the process, and nowhere else. Each has a test that fails
when it opens again, or is no longer needed: tests/integration/offline/test_compatibility.py.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def close_seams() -> None:
    """Make LLaMA-Factory importable; call it before anything of it but this is imported."""
    _stand_in_for_torchaudio()
    _allow_other_versions()


def _stand_in_for_torchaudio() -> None:
    """LLaMA-Factory imports torchaudio wherever it prepares data, even for text ("No module named
    'torchaudio'"), and torchaudio has no wheel that loads beside a CPU build of torch. Training on
    text calls nothing in it."""
    if "torchaudio" in sys.modules or find_spec("torchaudio") is not None:
        return
    # transformers caches the lookup before the stub exists, so to it torchaudio is missing.
    import_module("transformers.utils.import_utils").is_torchaudio_available()
    stand_in = ModuleType("torchaudio")
    stand_in.__spec__ = ModuleSpec("torchaudio", loader=None)
    sys.modules["torchaudio"] = stand_in


def _allow_other_versions() -> None:
    """It refuses transformers above 5.6.0 when its arguments are imported ("transformers>=4.55.0,
    <=5.6.0 is required"). The lock decides the versions; what works is tested with them. Checks of
    optional packages, made where an argument asks for one, stay."""
    setattr(import_module("llamafactory.extras.misc"), "check_dependencies", _check_nothing)  # noqa: B010 - modules are typed


def _check_nothing() -> None:
    pass
