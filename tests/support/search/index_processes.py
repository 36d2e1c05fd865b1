"""Changes that child processes make to an index until a test kills them.

Started as ``python -m tests.support.search.index_processes TASK ARGUMENT...``; see `start`.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.store.changes import Changes
from services.retrieval.store.layout import VersionFolder
from services.retrieval.store.query import Query
from services.retrieval.store.store import IndexStore
from services.retrieval.store.text_writer import TextWriter
from services.retrieval.store.tokens import Analyzer
from tests.support.search.indexes import build_index, passage

_STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree"}
_MOST_STEPS = 200


@contextmanager
def start(task: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a task of this module with its output piped; kill it at the end."""
    command = [sys.executable, "-m", __name__, task, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def killed_some_time_after(process: subprocess.Popen[str], lines: int) -> int:
    """Kill a task once it told ``lines`` numbers, at some moment; the last number it told."""
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(lines)]
    time.sleep(random.uniform(0.0, 0.1))  # Any moment will do; this is what is tried out.
    process.kill()
    told += process.stdout.readlines()
    return int([line for line in told if line.endswith("\n")][-1])


def put_until_killed(root: str) -> None:
    """Put ever newer states of passages "left" and "right" into index "test", printing each."""
    index = IndexStore(Path(root)).open("test").index
    left = index.document("left")
    changes = Changes(index)
    for state in count(0 if left is None else _state(left) + 1):
        pair = [passage(side, f"state {state}") for side in ("left", "right")]
        changes.put(pair, None if index.dense is None else vectors_of(state))
        print(state, flush=True)


def vectors_of(state: int) -> np.ndarray:
    """The vectors of "left" and "right" in that state, of 8 dimensions; other states' differ."""
    drawn = np.random.default_rng(state).standard_normal((2, 8)).astype(np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def put_some(root: str, prefix: str, number: str) -> None:
    """Put passages into index "test", one by one."""
    changes = Changes(IndexStore(Path(root)).open("test").index, timeout=60.0)
    for place in range(int(number)):
        changes.put([passage(f"{prefix}-{place}", "text")])


def write_forever(folder: str) -> None:
    """Add passages to a version in the making, commit them, tell how many, and so on."""
    with TextWriter(VersionFolder(Path(folder)), Analyzer("english")) as writer:
        while True:
            writer.add([passage(f"p{writer.rows + number}", "text") for number in range(50)])
            writer.commit()
            print(writer.rows, flush=True)


def build_and_be_killed(root: str) -> None:
    """Rebuild index "test", killed before its first step, then before the second, and so on.

    After each death the index answers as before or as built, and the next build comes to its end.
    """
    store = IndexStore(Path(root) / "indexes")
    build_index(store, "test", [passage("one", "old")])
    template = shutil.copytree(store.root, Path(root) / "template")
    for steps in range(_MOST_STEPS):
        shutil.rmtree(store.root)
        shutil.copytree(template, store.root)
        survived = _in_a_fork(partial(_build, store, steps))
        assert _in_a_fork(partial(_check, store, new=survived)), f"killed before step {steps}"
        if survived:
            print(steps)
            return
    raise AssertionError("it never came to its end")


def _state(document: bytes) -> int:
    return int(document.split(b"state ")[1].split(b'"')[0])


def _build(store: IndexStore, steps: int) -> None:
    left = iter(range(steps))

    def step(event: str, arguments: tuple[object, ...]) -> None:
        if event in _STEPS and str(store.root) in str(arguments[0]) and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(step)
    build_index(store, "test", [passage("one", "new")])


def _check(store: IndexStore, *, new: bool) -> None:
    for expected in ("new" if new else "old new", "newer"):
        opened = store.open("test")
        (hits,) = opened.index.search([Query("old new newer", IndexMode.BM25, 2)])
        assert opened.problem is None
        assert [hit.id for hit in hits] == ["one"]
        assert hits[0].document.split(b'"')[7].decode() in expected.split()
        build_index(store, "test", [passage("one", "newer")])
    names = {path.name for path in (store.root / "test").iterdir()}
    assert len(names) == 4, names
    assert [path.name for path in store.root.iterdir()] == ["test"]


def _in_a_fork(action: Callable[[], None]) -> bool:
    """Whether the action completed, in a fresh child process."""
    child = os.fork()
    if child == 0:
        try:
            action()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), f"ended with {status}"
    return status == 0


if __name__ == "__main__":
    tasks = (put_until_killed, put_some, write_forever, build_and_be_killed)
    TASKS = {task.__name__: task for task in tasks}
    TASKS[sys.argv[1]](*sys.argv[2:])
