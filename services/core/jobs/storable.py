"""Sanitize text and JSON of children: what every database stores and every JSON parser reads."""

import math
from typing import Any

MAX_TEXT = 4000
MAX_INTEGER = 2**63 - 1


def storable_text(text: str, limit: int = MAX_TEXT) -> str:
    """The text with NUL and lone surrogates replaced, truncated to ``limit`` characters."""
    return text[:limit].replace("\0", "\ufffd").encode(errors="replace").decode()


def storable(value: Any) -> Any:
    """A JSON value with sanitized text; non-finite floats and huge integers become null."""
    match value:
        case str():
            return storable_text(value, limit=len(value))
        case dict():
            return {storable(name): storable(item) for name, item in value.items()}
        case list():
            return [storable(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case int() if abs(value) > MAX_INTEGER:
            return None
        case _:
            return value
