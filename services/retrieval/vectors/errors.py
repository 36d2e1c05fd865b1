"""What can go wrong with vectors."""

from pathlib import Path

from services.contracts.errors import ConfigurationError, InvalidRequest, TemperError


class DimensionMismatch(InvalidRequest):
    """Vectors of one length were given to an index of another."""

    code = "dimension_mismatch"

    def __init__(self, *, index: int, given: int) -> None:
        super().__init__(
            f"The vectors have {given} dimensions, but those of the index have {index}: they come"
            " from different encoders"
        )
        self.index = index
        self.given = given


class InvalidVector(InvalidRequest):
    """A vector cannot be compared with others: it is not finite."""

    code = "invalid_vector"


class VectorsUnusable(TemperError):
    """A file of an index is missing, cut short or damaged; the message names it and says why."""

    code = "vectors_unusable"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class DeviceUnavailable(ConfigurationError):
    """The device that vectors should be searched on is not there, or cannot do it."""

    code = "device_unavailable"
