"""File downloads."""

from pathlib import Path
from typing import Any

from fastapi.responses import FileResponse

DOWNLOAD: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    }
}
"""OpenAPI responses of a route that returns a file."""


def download(path: Path, filename: str) -> FileResponse:
    """A response that browsers save as ``filename`` and never render."""
    return FileResponse(
        path,
        media_type="application/octet-stream",
        filename=filename,
        headers={"x-content-type-options": "nosniff"},
    )
