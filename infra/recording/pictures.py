"""Pictures for the documentation, with words, joined by the Pillow of the vllm runtime."""

import subprocess
from pathlib import Path

from playwright.sync_api import Page

from services.core.process.runtimes import find_runtime
from services.core.settings import Settings

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
JOIN = Path(__file__).with_name("join.py")
RUNTIME = "vllm"
JOIN_SECONDS = 300
MAX_BYTES = 1_500_000


class Frames:
    """Pictures in the order in which they are taken, in an empty folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._taken = 0

    def take(self, page: Page, words: str) -> None:
        """Take a picture of what a page shows, with words below it."""
        page.screenshot(path=self._folder / f"{self._taken:02}.png")
        (self._folder / f"{self._taken:02}.txt").write_text(words)
        self._taken += 1

    def join(self, kind: str, name: str) -> None:
        """Write the pictures to the documentation, as an ``animation`` or a ``sheet``."""
        python = find_runtime(Settings().runtimes_folder, RUNTIME).python
        picture = FOLDER / name
        command = [str(python), str(JOIN), kind, str(self._folder), str(picture)]
        subprocess.run(command, check=True, timeout=JOIN_SECONDS)
        size = picture.stat().st_size
        if size > MAX_BYTES:
            raise SystemExit(f"{size:,} bytes are more than {MAX_BYTES:,}")
        print(f"{picture}: {size:,} bytes")
