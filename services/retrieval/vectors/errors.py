"""Errors of vector indexes."""

from pathlib import Path

from services.contracts.errors import ConfigurationError, InvalidRequest, TemperError


class DimensionMismatch(InvalidRequest):
    """The vectors have another dimension than the index."""

    code = "dimension_mismatch"

    def __init__(self, *, index: int, given: int) -> None:
        super().__init__(
            f"The vectors have {given} dimensions, but the index has {index}: they come"
            " from different encoders"
        )
        self.index = index
        self.given = given


class InvalidVector(InvalidRequest):
    """A vector is not finite."""

    code = "invalid_vector"


class VectorsUnusable(TemperError):
    """A file of the index is missing, truncated or damaged; the message names it."""

    code = "vectors_unusable"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class DeviceUnavailable(ConfigurationError):
    """The search device is missing or unsupported."""

    code = "device_unavailable"


class VectorFileUnusable(InvalidRequest):
    """A file of vectors cannot be imported; the message names it and says why."""

    code = "vector_file_unusable"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}", param="vectors")
