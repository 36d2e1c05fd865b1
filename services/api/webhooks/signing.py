"""Signatures of requests to webhooks, by the Standard Webhooks specification, which OpenAI's use.

``webhook-signature`` is ``v1,`` and the base64 of HMAC-SHA256 over ``ID.TIMESTAMP.BODY``, with the
bytes behind the prefix of the secret as its key.
"""

import base64
import hashlib
import hmac
import secrets

PREFIX = "whsec_"
KEY_BYTES = 32


def new_secret() -> str:
    """A fresh secret: ``whsec_`` and the base64 of 32 random bytes."""
    return PREFIX + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def signed_headers(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers that let a receiver verify who sent a body, and when."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
