"""Downloads, which stream, so that their size never matters to memory."""

from collections.abc import Callable
from pathlib import Path

from temper.client.transport import TRANSFER_TIME_LIMIT, Transport

CHUNK = 1 << 16

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all, or 0 where that is unknown."""


def download(
    transport: Transport, address: str, target: Path, progress: Progress | None = None
) -> None:
    """Write what is at ``address`` to ``target``, which appears only when it is complete."""
    partial = target.with_name(f"{target.name}.partial")
    try:
        with (
            open(partial, "wb") as out,
            transport.stream(address, {}, {}, TRANSFER_TIME_LIMIT) as response,
        ):
            total = int(response.headers.get("content-length", 0))
            for chunk in response.iter_bytes(CHUNK):
                out.write(chunk)
                if progress is not None:
                    progress(out.tell(), total)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
