"""Temper's command line and Python client."""

from typing import TYPE_CHECKING, Any

from services.contracts.version import VERSION as __version__

if TYPE_CHECKING:
    from temper.client import Temper

__all__ = ["Temper", "__version__"]


def __getattr__(name: str) -> Any:
    # The command line imports this package for everything, and the client only to call the gateway.
    if name != "Temper":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from temper.client import Temper  # noqa: PLC0415 - when it is asked for

    return Temper
