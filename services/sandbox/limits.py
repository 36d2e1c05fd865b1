"""What requests may ask for, by what the operator allows."""

from services.contracts.errors import Unprocessable
from services.sandbox.settings import SandboxSettings

CLIENT_SLACK_SECONDS = 10.0
"""Clients wait so much longer than the time limits of their request together."""


def check_seconds(seconds: float, param: str, settings: SandboxSettings) -> None:
    """Raise `Unprocessable` for a time limit that is too high."""
    most = settings.sandbox_max_run_seconds
    if seconds > most:
        raise Unprocessable(
            f"{param}: is above {most:g} s, the most that this service allows "
            "(TEMPER_SANDBOX_MAX_RUN_SECONDS)",
            param=param,
        )


def memory_bytes(asked_mb: int | None, param: str, settings: SandboxSettings) -> int:
    """The memory limit that was asked for, or else the default; raises `Unprocessable`."""
    most = settings.sandbox_max_memory_mb
    if asked_mb is None or asked_mb <= 0:
        return settings.sandbox_memory_mb << 20
    if asked_mb > most:
        raise Unprocessable(
            f"{param}: is above {most}, the most that this service allows "
            "(TEMPER_SANDBOX_MAX_MEMORY_MB)",
            param=param,
        )
    return asked_mb << 20
