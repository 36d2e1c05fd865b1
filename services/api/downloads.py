"""Answers that are files."""

from pathlib import Path
from typing import Any

from fastapi.responses import FileResponse

DOWNLOAD: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    }
}
"""What a route that answers with a file declares to OpenAPI."""


def download(path: Path, filename: str) -> FileResponse:
    """A file that a browser saves under ``filename``, whatever it holds."""
    return FileResponse(
        path,
        media_type="application/octet-stream",
        filename=filename,
        headers={"x-content-type-options": "nosniff"},
    )
