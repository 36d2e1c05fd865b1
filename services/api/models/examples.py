"""Requests that the OpenAPI description shows."""

from fastapi.openapi.models import Example

REGISTER: dict[str, Example] = {
    "folder": {
        "summary": "A folder under the operator's model root",
        "value": {"id": "tiny-base", "folder": "tiny"},
    },
    "adapter": {
        "summary": "An adapter in a folder, with the model it belongs to",
        "value": {"id": "tiny-support", "folder": "adapters/support", "base": "tiny-base"},
    },
    "hub": {
        "summary": "A repository of a hub",
        "value": {"id": "owner/small", "hub_id": "owner/small", "revision": "main"},
    },
}
