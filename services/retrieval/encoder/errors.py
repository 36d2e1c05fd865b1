"""What can go wrong between a process and its encoder."""

from services.contracts.errors import ConfigurationError, GatewayTimeout, TemperError, Unavailable


class EncoderUnavailable(Unavailable):
    """The encoder does not run at present; it may be starting again."""

    code = "encoder_unavailable"


class EncoderBusy(Unavailable):
    """More texts wait than the encoder takes."""

    code = "encoder_busy"


class EncoderTimeout(GatewayTimeout):
    """The vectors were not there by the deadline."""

    code = "encoder_timeout"


class EncoderUnusable(ConfigurationError):
    """The encoder cannot be had as it is asked for; the message is the reason."""

    code = "encoder_unusable"


class EncoderMismatch(ConfigurationError):
    """Vectors of this encoder cannot be compared to those that are there."""

    code = "encoder_mismatch"


_KNOWN: tuple[type[TemperError], ...] = (EncoderBusy, EncoderTimeout, EncoderUnusable)


def error_of(code: str, message: str) -> TemperError:
    """The error that an encoder reported."""
    kind = next((known for known in _KNOWN if known.code == code), EncoderUnavailable)
    return kind(message)
