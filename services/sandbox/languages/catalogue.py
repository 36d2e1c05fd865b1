"""All languages, and what together they ask of the machine.

Imports the standard library only, besides the declarations: whatever sets a machine up reads
this too.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from services.sandbox.languages import compiled, golang, javascript, jvm, python, scripting
from services.sandbox.languages.declaration import Language
from services.sandbox.languages.toolchains import existing

_FAMILIES = (python, scripting, javascript, compiled, golang, jvm)

LANGUAGES: Mapping[str, Language] = MappingProxyType(
    {language.name: language for family in _FAMILIES for language in family.FAMILY}
)

_GPU = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")


def visible_paths() -> tuple[str, ...]:
    """What the toolchains read besides what every program sees, as far as it exists."""
    patterns = {pattern for language in LANGUAGES.values() for pattern in language.visible}
    return _existing(patterns)


def gpu_devices() -> tuple[str, ...]:
    """The device files that programs on NVIDIA GPUs open, as far as they exist."""
    return _existing(_GPU)


def _existing(patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(path for pattern in patterns for path in existing(pattern)))
