"""Errors of encoders and their clients."""

from services.contracts.errors import ConfigurationError, GatewayTimeout, TemperError, Unavailable


class EncoderUnavailable(Unavailable):
    """The encoder is not running; it may be restarting."""

    code = "encoder_unavailable"


class EncoderBusy(Unavailable):
    """The encoder's queue is full."""

    code = "encoder_busy"


class EncoderTimeout(GatewayTimeout):
    """The deadline passed before the vectors were computed."""

    code = "encoder_timeout"


class EncoderUnusable(ConfigurationError):
    """The encoder cannot be run as configured; the message says why."""

    code = "encoder_unusable"


class EncoderMismatch(ConfigurationError):
    """This encoder's vectors are not comparable to those of the index."""

    code = "encoder_mismatch"


_KNOWN: tuple[type[TemperError], ...] = (EncoderBusy, EncoderTimeout, EncoderUnusable)


def error_of(code: str, message: str) -> TemperError:
    """Rebuild the error an encoder reported."""
    kind = next((known for known in _KNOWN if known.code == code), EncoderUnavailable)
    return kind(message)
