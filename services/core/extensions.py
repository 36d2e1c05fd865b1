"""Extensions: rewards, tools and trackers of other packages, found by entry point.

An operator adds one by installing its package in the core environment of the gateway and of the
workers.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from services.contracts.errors import InvalidRequest


def find_extension(group: str, name: str) -> EntryPoint | None:
    """Return the entry point of an extension without importing it; None if there is none."""
    return next(iter(entry_points(group=group, name=name)), None)


def extension_names(group: str) -> list[str]:
    """Return the names of the installed extensions."""
    return sorted(entry_points(group=group).names)


def load_extension(group: str, name: str, param: str) -> Any:
    """Import an extension.

    Raises `InvalidRequest`, naming the field ``param``, if it is not installed or cannot be
    imported.
    """
    found = find_extension(group, name)
    if found is None:
        names = ", ".join(extension_names(group)) or "none"
        message = f"no extension {name!r} is installed for {group}; installed are: {names}"
        raise InvalidRequest(message, param=param, code="extension_not_found")
    try:
        return found.load()
    except (ImportError, AttributeError) as error:
        message = f"the extension {name!r} cannot be imported: {error}"
        raise InvalidRequest(message, param=param, code="extension_not_found") from error
