"""Tokens that identify data scripts to the LLM proxy; they are worthless anywhere else.

A token is derived from the script's id and the worker's key for scripts, so that any worker
recognizes it, also after a restart.
"""

import hashlib
import hmac

from services.campaigns.settings import CampaignSettings


def script_token(settings: CampaignSettings, script_id: str) -> str:
    """The token of a script."""
    return f"{script_id}.{_mark(settings, script_id)}"


def script_of(settings: CampaignSettings, token: str) -> str | None:
    """The id of the script with this token; None for an unknown token."""
    script_id, _, mark = token.partition(".")
    expected = _mark(settings, script_id).encode()
    return script_id if hmac.compare_digest(mark.encode(), expected) else None


def _mark(settings: CampaignSettings, script_id: str) -> str:
    key = settings.campaign_script_key
    secret = key.get_secret_value().encode() if key is not None else b""
    message = f"llm-proxy/{script_id}".encode()
    return hmac.new(secret, message, hashlib.sha256).hexdigest()
