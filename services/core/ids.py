"""Identifiers: a prefix that names the kind, and 96 random bits."""

import secrets


def new_id(prefix: str) -> str:
    """Return a fresh id such as ``ftjob-5f0c...``; safe as a file name."""
    return f"{prefix}-{secrets.token_hex(12)}"
