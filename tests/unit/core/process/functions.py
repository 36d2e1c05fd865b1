"""Functions that are called in processes of their own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def add(a: float, b: float = 0) -> float:
    print("a line that is not an answer")
    subprocess.run([sys.executable, "-c", "print('nor this')"], check=True)
    return a + b


async def add_later(a: float, b: float) -> float:
    return a + b


def process() -> int:
    return os.getpid()


def variables() -> dict[str, str]:
    return dict(os.environ)


def hang(started: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    written = Path(f"{started}.part")
    written.write_text(f"{os.getpid()} {child.pid}")
    written.rename(started)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def fail() -> None:
    raise ValueError("no such thing")


def leave() -> None:
    os._exit(3)


def exit_with_message() -> None:
    sys.exit("enough")


def returns_a_set() -> Any:
    return {1, 2}


def much(size: int) -> str:
    return "x" * size


NUMBER = 5
