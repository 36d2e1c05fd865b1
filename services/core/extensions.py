"""Extensions: rewards, tools and trackers of other packages, found by entry point.

An operator adds one by installing its package in the core environment of the gateway and of the
workers. What an extension raises is an error that names it, and the field of the request.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from services.contracts.errors import InvalidRequest, TemperError

logger = logging.getLogger(__name__)

FAILED = "extension_failed"


def find_extension(group: str, name: str) -> EntryPoint | None:
    """Return the entry point of an extension without importing it; None if there is none."""
    return next(iter(entry_points(group=group, name=name)), None)


def extension_names(group: str) -> list[str]:
    """Return the names of the installed extensions."""
    return sorted(entry_points(group=group).names)


def load_extension(group: str, name: str, param: str) -> Any:
    """Import an extension.

    Raises `InvalidRequest`, naming the field ``param``, if it is not installed or cannot be
    imported, whatever its module raises.
    """
    found = find_extension(group, name)
    if found is None:
        names = ", ".join(extension_names(group)) or "none"
        message = f"no extension {name!r} is installed for {group}; installed are: {names}"
        raise InvalidRequest(message, param=param, code="extension_not_found")
    with blamed_on(name, param, "cannot be imported"):
        return found.load()


def make_family(group: str, name: str, param: str, kind: type[object], called: str) -> Any:
    """Import an extension that is a family, a ``kind`` ``called`` so, and make it.

    Raises `InvalidRequest`, naming the field ``param``, as `load_extension` does, and if it is
    anything else.
    """
    loaded = load_extension(group, name, param)
    with blamed_on(name, param, "cannot be made"):
        family = loaded()
    if not isinstance(family, kind):
        message = f"the extension {name!r} is not {called}"
        raise InvalidRequest(message, param=param, code=FAILED)
    return family


@contextmanager
def blamed_on(name: str, param: str, what: str = "failed") -> Iterator[None]:
    """Turn what an extension raises in the block into an `InvalidRequest` that names it and its
    field ``param``; the log has the traceback. Errors of ours, which an extension may raise on
    purpose, and a lack of memory pass."""
    try:
        yield
    except (TemperError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        logger.warning("extension %.100r %s", name, what, exc_info=True)
        message = f"the extension {name!r} {what}: {type(error).__name__}: {error}"
        raise InvalidRequest(message, param=param, code=FAILED) from error
