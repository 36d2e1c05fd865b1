"""User functions that compute rewards: valid and faulty ones."""

import os
import time
from typing import Any


def length(trajectory: dict[str, Any], factor: float = 1.0) -> float:
    return factor * len(trajectory["response"])


def fields(trajectory: dict[str, Any]) -> dict[str, Any]:
    """1 if the record has the expected fields."""
    assert trajectory["gold"] == ["4"], trajectory
    assert trajectory["messages"][0]["role"] == "user"
    assert "prompt_token_ids" not in trajectory
    assert not any("KEY" in name for name in os.environ), sorted(os.environ)
    return {"score": True, "note": "ignored"}


def raising(trajectory: dict[str, Any]) -> float:
    raise ValueError("no taste")


def hanging(trajectory: dict[str, Any]) -> float:
    while True:
        time.sleep(1)


def ending(trajectory: dict[str, Any]) -> float:
    os._exit(0)


def text(trajectory: dict[str, Any]) -> str:
    return "good"


def infinite(trajectory: dict[str, Any]) -> float:
    return float("inf")


def huge(trajectory: dict[str, Any]) -> int:
    return 10**400
