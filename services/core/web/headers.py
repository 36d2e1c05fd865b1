"""Headers of a request, read from the scope as middlewares have it."""

from starlette.types import Scope


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of this name, which is in lower case; None where there is none."""
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return None
