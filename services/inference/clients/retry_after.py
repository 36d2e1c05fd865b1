"""What a server says about when to ask again."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def seconds_to_wait(value: str) -> float | None:
    """The seconds that a Retry-After header asks for, as a number or as a date; null where it
    says nothing that can be read."""
    try:
        seconds = float(value)
    except ValueError:
        return _until(value)
    return max(0.0, seconds) if seconds < float("inf") else None


def _until(value: str) -> float | None:
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    until: datetime = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())
