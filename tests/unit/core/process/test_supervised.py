"""A child's whole process tree ends with its worker, its lease, or on request."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from services.core.process.runtimes import MARKER
from services.core.process.supervised import (
    StartFailed,
    SupervisedProcess,
    kill_earlier_trees,
    kill_tree,
    lease_clock,
    nested_tree_name,
    tree_name,
)
from tests.support.waiting import wait_for

DAEMONS = """
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for generation in range(2):
    if os.fork() == 0:
        os.setsid()
        pathlib.Path(f"pid-{generation}").write_text(str(os.getpid()))
        if generation: os.close(0)
        while True: time.sleep(1)
pathlib.Path("pid-child").write_text(str(os.getpid()))
while True: time.sleep(1)
"""
"""Two daemons in sessions of their own, beside a child; all of them ignore SIGTERM."""


class Tree:
    """Starts children in a scratch folder and knows which processes they left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log.txt"
        self.started: list[SupervisedProcess] = []

    def start(self, script: str, lease: float = 60.0, grace: float = 0.5) -> SupervisedProcess:
        process = SupervisedProcess.start(
            [sys.executable, "-c", script],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"]},
            log=self.log,
            tree=str(self.folder),
            deadline=lease_clock() + lease,
            grace_seconds=grace,
        )
        self.started.append(process)
        return process

    def pids(self) -> list[int]:
        files = [self.folder / name for name in ("pid-child", "pid-0", "pid-1")]
        wait_for(lambda: all(file.exists() and file.read_text() for file in files), "daemons", 90)
        return [int(file.read_text()) for file in files]


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(tmp_path)
    yield tree
    kill_tree(str(tmp_path))
    for process in tree.started:
        finished(process)


def finished(process: SupervisedProcess) -> int | None:
    wait_for(lambda: process.wait(0.1), "the end of the child", 90)
    return process.returncode


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:  # it may end while it is looked at
        return False


def test_the_exit_code_and_the_output_are_kept(tree: Tree) -> None:
    tree.log.write_text("from an earlier attempt\n")

    process = tree.start(
        "import os, sys; os.write(1, b'out\\n'); os.write(2, b'err\\n'); sys.exit(3)"
    )

    assert finished(process) == 3
    assert tree.log.read_text() == "from an earlier attempt\nout\nerr\n"


def test_the_exit_code_of_a_killed_child_is_negative(tree: Tree) -> None:
    process = tree.start("import os; os.kill(os.getpid(), 11)")

    assert finished(process) == -signal.SIGSEGV


def test_a_missing_command_raises_start_failed(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="No such file"):
        SupervisedProcess.start(
            ["/nowhere/python"],
            cwd=tmp_path,
            env={},
            log=tmp_path / "log.txt",
            tree="x",
            deadline=lease_clock() + 5,
            grace_seconds=1,
        )


def test_stopping_a_tree_ends_its_daemons(tree: Tree) -> None:
    process = tree.start(DAEMONS)
    pids = tree.pids()

    process.end()

    assert finished(process) == -signal.SIGKILL
    assert not [pid for pid in pids if alive(pid)]


def test_a_child_that_stops_on_term_is_not_killed(tree: Tree) -> None:
    process = tree.start(
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "pathlib.Path('ready').touch()\n"
        "while True: time.sleep(1)",
        grace=30.0,
    )
    wait_for((tree.folder / "ready").exists, "the child")

    process.end()

    assert finished(process) == 7


def test_processes_may_have_undecodable_names(tree: Tree) -> None:
    process = tree.start(
        "import ctypes, pathlib, time\n"
        "ctypes.CDLL(None).prctl(15, b'\\xff', 0, 0, 0)\n"  # PR_SET_NAME
        "pathlib.Path('ready').touch()\n"
        "while True: time.sleep(1)"
    )
    wait_for((tree.folder / "ready").exists, "the child")

    process.end()

    assert finished(process) == -signal.SIGTERM


def test_daemons_end_with_a_child_that_exits(tree: Tree) -> None:
    process = tree.start(
        DAEMONS.rpartition("while")[0]
        + "files = [pathlib.Path(f'pid-{generation}') for generation in range(2)]\n"
        + "while not all(file.exists() and file.read_text() for file in files): time.sleep(0.01)"
    )

    assert finished(process) == 0

    assert not [pid for pid in tree.pids() if alive(pid)]


def test_a_tree_ends_when_its_lease_expires(tree: Tree) -> None:
    process = tree.start(DAEMONS)
    pids = tree.pids()

    process.renew(lease_clock() + 0.5)  # a lease that is short from the start may end before them

    assert finished(process) == -signal.SIGKILL
    assert not [pid for pid in pids if alive(pid)]


def test_a_tree_reports_whether_its_lease_expired(tree: Tree) -> None:
    sleep = "import time; time.sleep(60)"
    expired, ended = tree.start(sleep, lease=0.5), tree.start(sleep)

    ended.end()

    assert (finished(expired), expired.expired) == (-signal.SIGTERM, True)
    assert (finished(ended), ended.expired) == (-signal.SIGTERM, False)


def test_nothing_is_started_after_the_deadline(tree: Tree) -> None:
    process = tree.start("open('started', 'w')", lease=-1.0)

    assert process.expired
    assert not (tree.folder / "started").exists()


def test_a_delayed_renewal_grants_no_extra_time(tree: Tree) -> None:
    process = tree.start("import time; time.sleep(60)")

    process.renew(lease_clock() - 1.0)

    assert finished(process) == -signal.SIGTERM
    assert process.expired


def test_only_the_trees_of_earlier_claims_are_killed(tmp_path: Path) -> None:
    trees = {
        epoch: SupervisedProcess.start(
            [sys.executable, "-c", "import time; time.sleep(60)"],
            cwd=tmp_path,
            env={},
            log=tmp_path / "log.txt",
            tree=tree_name(tmp_path.name, epoch),
            deadline=lease_clock() + 60,
            grace_seconds=0.5,
        )
        for epoch in (1, 2, 3)
    }

    kill_earlier_trees(tmp_path.name, 2)

    assert finished(trees[1]) == -signal.SIGKILL
    assert not trees[2].wait(0.2)
    assert not trees[3].wait(0.2)
    for process in trees.values():
        process.end()
        finished(process)


def test_processes_with_foreign_marks_are_spared(tmp_path: Path) -> None:
    marks = (b"\xff:1", os.fsencode(tmp_path.name) + b":" + b"1" * 5000, b"", b"a:b:1")
    strangers = [subprocess.Popen(["sleep", "60"], env={MARKER.encode(): mark}) for mark in marks]
    try:
        assert kill_earlier_trees(tmp_path.name, 2) == 0
        assert [stranger.poll() for stranger in strangers] == [None] * len(marks)
    finally:
        for stranger in strangers:
            stranger.kill()
            stranger.wait()


def test_a_renewed_lease_keeps_the_tree_running(tree: Tree) -> None:
    def kept(lease: float) -> bool:
        process = tree.start(f"import time; time.sleep({lease + 0.5})", lease=lease)
        process.renew(lease_clock() + 120.0)
        return finished(process) == 0

    # A machine may be too busy to renew a short lease in time.
    assert kept(1.0) or kept(20.0)


def test_a_pending_renewal_does_not_undo_a_termination(tree: Tree) -> None:
    process = tree.start("import time; time.sleep(600)")
    watchdog = psutil.Process(process.pid).ppid()
    os.kill(watchdog, signal.SIGSTOP)
    process.renew(lease_clock() + 120.0)
    os.kill(watchdog, signal.SIGTERM)
    os.kill(watchdog, signal.SIGCONT)

    finished(process)

    assert process.expired


def test_the_memory_of_a_child_is_limited(tree: Tree) -> None:
    process = SupervisedProcess.start(
        [sys.executable, "-c", "held = bytearray(400 << 20)"],
        cwd=tree.folder,
        env={},
        log=tree.log,
        tree=str(tree.folder),
        grace_seconds=0.5,
        memory_bytes=200 << 20,
    )
    tree.started.append(process)

    assert finished(process) == 1
    assert "MemoryError" in tree.log.read_text()


HOARDER = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0: signal.pause()
held = []
while len(held) < 60:
    held.append(b"x" * (10 << 20))
    time.sleep(0.02)
signal.pause()
"""
"""A child and a fork of it that take 600 MiB together and do not end by themselves."""


def test_processes_that_hold_too_much_memory_together_are_killed(tree: Tree) -> None:
    process = SupervisedProcess.start(
        [sys.executable, "-c", HOARDER],
        cwd=tree.folder,
        env={},
        log=tree.log,
        tree=str(tree.folder),
        grace_seconds=600.0,
        tree_memory_bytes=200 << 20,
    )
    tree.started.append(process)

    assert finished(process) == -signal.SIGKILL
    assert (process.exhausted, process.expired) == ("tree", False)


SHARERS = """
import os, time
held = b"x" * (150 << 20)
children = [os.fork() or time.sleep(3) or os._exit(0) for _ in range(4)]
for child in children: os.waitpid(child, 0)
"""
"""Five processes that share 150 MiB for longer than the memory of a tree is measured apart."""


def test_memory_that_processes_share_counts_once(tree: Tree) -> None:
    process = SupervisedProcess.start(
        [sys.executable, "-c", SHARERS],
        cwd=tree.folder,
        env={},
        log=tree.log,
        tree=str(tree.folder),
        grace_seconds=0.5,
        tree_memory_bytes=400 << 20,
    )
    tree.started.append(process)

    assert finished(process) == 0
    assert process.exhausted is None


def test_a_job_is_killed_before_its_worker_when_memory_runs_out(tree: Tree) -> None:
    score = Path("/proc/self/oom_score_adj")
    if not score.exists():
        pytest.skip("the kernel shows no oom_score_adj")

    process = tree.start(f"print(open({str(score)!r}).read())")

    assert finished(process) == 0
    assert tree.log.read_text().strip() == "1000"


def test_a_tree_ends_with_the_tree_that_it_is_nested_in(tree: Tree) -> None:
    process = SupervisedProcess.start(
        [sys.executable, "-c", DAEMONS],
        cwd=tree.folder,
        env={},
        log=tree.log,
        tree=nested_tree_name(tree_name("job", 1)),
        grace_seconds=0.5,
    )
    tree.started.append(process)
    pids = tree.pids()
    psutil.Process(process.pid).parent().kill()  # type: ignore[union-attr]  # its parent lives

    kill_earlier_trees("job", 2)

    wait_for(lambda: not any(alive(pid) for pid in pids), "the nested tree ends")


WORKER = """
import os, sys, time
from pathlib import Path
from services.core.process.supervised import SupervisedProcess, lease_clock
folder = Path(sys.argv[1])
SupervisedProcess.start([sys.executable, "-c", sys.argv[2]], cwd=folder, env={}, log=folder / "log",
                        tree=str(folder), deadline=lease_clock() + 60, grace_seconds=0.5)
(folder / "worker").touch()
time.sleep(600)
"""


def test_a_tree_ends_when_its_worker_is_killed(tree: Tree) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tree.folder), DAEMONS])
    wait_for((tree.folder / "worker").exists, "the worker")
    pids = tree.pids()

    worker.kill()
    worker.wait()

    wait_for(lambda: not [pid for pid in pids if alive(pid)], "the end of the tree")


def test_a_tree_without_worker_and_watchdog_is_found_by_its_mark(tree: Tree) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tree.folder), DAEMONS])
    wait_for((tree.folder / "worker").exists, "the worker")
    pids = tree.pids()
    watchdog = psutil.Process(pids[0]).parent()
    assert watchdog is not None

    # In this order: a watchdog without its worker would end, and its number be somebody else's.
    for process in (watchdog, worker):
        os.kill(process.pid, signal.SIGKILL)
    worker.wait()

    kill_tree(str(tree.folder))
    wait_for(lambda: not [pid for pid in pids if alive(pid)], "the end of the tree")


def test_a_tree_ends_when_its_watchdog_is_killed(tree: Tree) -> None:
    process = tree.start(DAEMONS)
    pids = tree.pids()
    watchdog = psutil.Process(pids[0]).parent()
    assert watchdog is not None

    watchdog.kill()

    assert finished(process) == -signal.SIGKILL
    wait_for(lambda: not [pid for pid in pids if alive(pid)], "the end of the tree")
