"""Models behind URLs, which the operator allows by their origins."""

from collections.abc import Collection

from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.evaluations import RemoteModel


def check_endpoint(model: RemoteModel, allowed: Collection[str]) -> None:
    """Raise `InvalidRequest` for a URL with a key in it, and `PermissionDenied` for an origin
    that the operator has not allowed."""
    url = model.base_url
    if url.username or url.password or url.query or url.fragment:
        message = "must be a plain URL: its key is set by the operator"
        raise InvalidRequest(message, param="model.base_url")
    if model.origin not in allowed:
        raise PermissionDenied(
            f"{model.origin} is not among the operator's TEMPER_ALLOWED_ENDPOINTS",
            param="model.base_url",
        )
