"""Work done ahead of all programs: headers and class archives that compilers read ready-made.

It is kept in a folder that programs can read, under a name that changes with the compiler. What
is not prepared is done without: everything works the same, slower.
"""

import asyncio
import hashlib
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from services.sandbox.languages.declaration import Language, Preparation
from services.sandbox.languages.toolchains import Toolchain


def prepared_folder(root: Path | None, language: Language, toolchain: Toolchain) -> Path | None:
    """Where a compiler finds what was prepared for it; None when nothing was."""
    if root is None or language.preparation is None:
        return None
    folder = root / folder_name(language.preparation, toolchain)
    return folder if folder.is_dir() else None


def folder_name(preparation: Preparation, toolchain: Toolchain) -> str:
    """The name of the folder below the root; another compiler or command has another."""
    told = repr((preparation, toolchain.compiler))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


async def prepare_in_background(root: Path) -> None:
    """Prepare the folder in a process of its own; cancelling ends that process.

    Takes seconds for each compiler when nothing is there yet. What fails is written to this
    process's stderr and left out.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "services.sandbox.languages.prepare", str(root)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
