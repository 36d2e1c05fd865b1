"""Sizes, times and numbers for people."""

import time
from datetime import UTC, datetime


def size(count: int) -> str:
    """Format a number of bytes: 512 B, 1.5 KB, 20 MB (powers of 1000)."""
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"


def duration(seconds: float) -> str:
    """Format a duration: 8s, 4m10s, 2h05m, 3d4h."""
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
    """Format the time since a Unix timestamp."""
    return f"{duration(time.time() - timestamp)} ago"


def clock(timestamp: float) -> str:
    """Format a Unix timestamp as local time of day."""
    return datetime.fromtimestamp(timestamp, UTC).astimezone().strftime("%H:%M:%S")


def number(value: float) -> str:
    """Format a number with four significant digits; large ones as integers."""
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.4g}"
