"""Functions by their dotted paths."""

import re
from collections.abc import Collection

from services.contracts.errors import InvalidRequest, PermissionDenied

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


def check_callable(path: str, allowed: Collection[str], param: str) -> None:
    """Raise `InvalidRequest` for what is no dotted path to a function, and `PermissionDenied` for
    one that the operator has not allowed. Nothing is imported."""
    if _DOTTED.fullmatch(path) is None:
        raise InvalidRequest("must be a dotted path, like package.module.function", param=param)
    if path not in allowed:
        raise PermissionDenied(
            f"{path} is not among the operator's TEMPER_ALLOWED_CALLABLES", param=param
        )
