"""x"""

import asyncio
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from services.sandbox.languages.catalog import (
    LANGUAGES,
    SEARCH_PATH,
    Toolchain,
    ToolchainMissing,
    find_toolchain,
)
from services.sandbox.languages.declaration import Language, Preparation, fill


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
        *("-P", "-m", "services.sandbox.languages.preparation", str(root)),
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


STEP_SECONDS = 120.0


def prepare(root: Path) -> None:
    """Prepare what the installed compilers can use below ``root``.

    What is there already stays; when something is missing it is made, and what no compiler uses
    any more goes. A step that fails is told on stderr and left out. While another process
    prepares the folder, this does nothing. The commands and files are the declarations' own:
    nothing of a user's is run here.
    """
    wanted = _wanted()
    if all((root / name).is_dir() for name in wanted):
        return
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        for entry in root.iterdir():
            if entry.name not in wanted and entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
        for name, preparation in wanted.items():
            if not (root / name).is_dir():
                _prepare(preparation, root / name)


def _wanted() -> dict[str, Preparation]:
    """What the installed compilers can use, by the name of its folder."""
    wanted = {}
    for language in LANGUAGES.values():
        if language.preparation is not None:
            with suppress(ToolchainMissing):
                toolchain = find_toolchain(language)
                wanted[folder_name(language.preparation, toolchain)] = language.preparation
    return wanted


def _prepare(preparation: Preparation, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        work, ready = Path(scratch, "work"), Path(scratch, "ready")
        for path, text in preparation.files.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_text(text, encoding="utf-8")
        try:
            subprocess.run(
                preparation.command,
                cwd=work,
                env=_environment(preparation, scratch, str(work)),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=STEP_SECONDS,
                check=True,
            )
            for product in preparation.products:
                (ready / product).parent.mkdir(parents=True, exist_ok=True)
                (work / product).rename(ready / product)
            ready.rename(folder)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{preparation.command[0]} could not prepare: {error}", file=sys.stderr)  # noqa: T201


def _environment(preparation: Preparation, scratch: str, work: str) -> dict[str, str]:
    extra = {name: fill(text, {"work": work}) for name, text in preparation.environment.items()}
    own = {"PATH": SEARCH_PATH, "HOME": scratch, "TMPDIR": scratch, "LANG": "C.UTF-8"}
    return own | {name: text for name, text in extra.items() if text}


if __name__ == "__main__":
    os.nice(19)
    os.umask(0o022)
    try:
        prepare(Path(sys.argv[1]).absolute())
    except OSError as failure:
        sys.exit(f"compilers run without prepared work: {failure}")
