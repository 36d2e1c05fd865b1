"""Precompiled compiler inputs: headers, class archives and caches, built once.

    python -m services.sandbox.languages.preparation FOLDER [--lowest-priority]

They live in a folder that programs can read, under a name that changes with the compiler.
Installation builds them, and a service builds missing ones in the background. Without them
everything works the same, only slower.
"""

import asyncio
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from services.core.process.tree import kill_tree, run_tree
from services.sandbox.guest import syscalls
from services.sandbox.languages.catalog import (
    LANGUAGES,
    SEARCH_PATH,
    Toolchain,
    ToolchainMissing,
    find_toolchain,
)
from services.sandbox.languages.declaration import LanguageSpec, PreparationSpec, fill


def prepared_folder(root: Path | None, language: LanguageSpec, toolchain: Toolchain) -> Path | None:
    """The folder prepared for a compiler; None if there is none."""
    if root is None or language.preparation is None:
        return None
    folder = root / folder_name(language.preparation, toolchain)
    return folder if folder.is_dir() else None


def folder_name(preparation: PreparationSpec, toolchain: Toolchain) -> str:
    """The folder's name; it changes with the compiler and the command."""
    identity = repr((preparation, toolchain.compiler))
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


_OF_A_SERVICE = "--of-a-service"


async def prepare_in_background(root: Path) -> None:
    """Prepare the folder in a child process of the lowest priority, which ends with its compilers
    when this is cancelled, and when this process dies.

    Takes seconds per compiler the first time. Failures are printed to stderr and skipped.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "services.sandbox.languages.preparation", str(root), _OF_A_SERVICE),
        stdin=asyncio.subprocess.PIPE,  # closed by the kernel when this process dies
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            kill_tree(process.pid)
            await process.wait()


STEP_SECONDS = 600.0
"""A step takes seconds; at the lowest priority of a busy machine, minutes."""


def prepare(root: Path) -> None:
    """Prepare everything the installed compilers can use below ``root``.

    Existing folders are kept, obsolete ones removed. A failing step is reported on stderr and
    skipped. Does nothing while another process prepares the same folder. Runs commands and files of
    the declarations only, never a user's.
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
        missing = [name for name in wanted if not (root / name).is_dir()]
        for number, name in enumerate(missing, 1):
            command = wanted[name].command[0]
            _report(f"preparing inputs of {command}, once ({number} of {len(missing)})")
            _prepare(wanted[name], root / name)


def _wanted() -> dict[str, PreparationSpec]:
    """What the installed compilers can use, by folder name."""
    wanted = {}
    for language in LANGUAGES.values():
        if language.preparation is not None:
            with suppress(ToolchainMissing):
                toolchain = find_toolchain(language)
                wanted[folder_name(language.preparation, toolchain)] = language.preparation
    return wanted


def _prepare(preparation: PreparationSpec, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        work, ready = Path(scratch, "work"), Path(scratch, "ready")
        for path, text in preparation.files.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_text(text, encoding="utf-8")
        try:
            # Compilers are drivers, whose own children do the work.
            run_tree(
                preparation.command,
                seconds=STEP_SECONDS,
                cwd=work,
                environment=_environment(preparation, scratch, str(work)),
            ).check_returncode()
            for product in preparation.products:
                (ready / product).parent.mkdir(parents=True, exist_ok=True)
                (work / product).rename(ready / product)
            ready.rename(folder)
        except (OSError, subprocess.SubprocessError) as error:
            _report(f"{preparation.command[0]} could not be prepared: {error}")


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - for the operator


def _environment(preparation: PreparationSpec, scratch: str, work: str) -> dict[str, str]:
    extra = {name: fill(text, {"work": work}) for name, text in preparation.environment.items()}
    own = {"PATH": SEARCH_PATH, "HOME": scratch, "TMPDIR": scratch, "LANG": "C.UTF-8"}
    return own | {name: text for name, text in extra.items() if text}


def end_with_the_service() -> None:
    """Kill this process group, compilers included, once the service has closed standard input."""

    def wait() -> None:
        while os.read(0, 1 << 10):  # a buffered reader is locked, and could not be closed
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _lower_priority() -> None:
    """Run at idle priority: this process and its children."""
    os.nice(_LOWEST)
    # The scheduler may weigh whole sessions, whatever the priorities in them.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_LOWEST))


_LOWEST = 19


def _end_with_parent() -> None:
    """Stop, with the running compiler, when the service dies without a word."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    syscalls.die_with_parent(signal.SIGTERM)


if __name__ == "__main__":
    if _OF_A_SERVICE in sys.argv[2:]:
        end_with_the_service()
        _lower_priority()
        _end_with_parent()
    os.umask(0o022)
    try:
        prepare(Path(sys.argv[1]).absolute())
    except OSError as failure:
        sys.exit(f"compilers run without precompiled inputs: {failure}")
