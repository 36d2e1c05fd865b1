"""Figures as people read them."""

import time
from datetime import UTC, datetime


def size(count: int) -> str:
    """Return a number of bytes as 512 B, 1.5 KB, 20 MB."""
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"


def duration(seconds: float) -> str:
    """Return a length of time as 8s, 4m10s, 2h05m, 3d4h."""
    whole = max(0, round(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if days:
        return f"{days}d{hours % 24}h"
    if hours:
        return f"{hours}h{minutes % 60:02}m"
    if minutes:
        return f"{minutes}m{whole % 60:02}s"
    return f"{whole}s"


def age(timestamp: float) -> str:
    """Return how long ago a time (seconds since the epoch) was."""
    return f"{duration(time.time() - timestamp)} ago"


def clock(timestamp: float) -> str:
    """Return a time (seconds since the epoch) as local hours, minutes and seconds."""
    return datetime.fromtimestamp(timestamp, UTC).astimezone().strftime("%H:%M:%S")


def figure(value: float) -> str:
    """Return a number in four significant digits, large ones in whole."""
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.4g}"
