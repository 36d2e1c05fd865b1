"""Programs that start too many processes, hide, or attack others."""

import contextlib
import os
import signal
from pathlib import Path

from tests.support.sandbox import Sandbox
from tests.support.time_limits import with_enough_time
from tests.support.waiting import wait_for

MARK = "hide-and-seek-%d"


def processes_with(mark: str) -> list[str]:
    """Processes of this machine whose command line holds ``mark``."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if mark.encode() in file.read():
                    found.append(pid)
        except OSError:
            continue
    return found


def test_a_fork_bomb_stays_within_its_limit(sandbox: Sandbox) -> None:
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    assert sandbox.run(code, run_timeout=2)["run_result"]["status"] == "TimeLimitExceeded"


def test_processes_are_limited(sandbox: Sandbox) -> None:
    code = """
import os, time
started = 0
try:
    while started < 1000:
        if os.fork() == 0: time.sleep(60)
        started += 1
except OSError as error: print(type(error).__name__, started < 100)
"""
    assert sandbox.output(code) == "BlockingIOError True\n"


def test_threads_are_limited(sandbox: Sandbox) -> None:
    code = """
import threading, time
try:
    for started in range(1000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
except RuntimeError as error: print(error, started < 100)
"""
    assert sandbox.output(code) == "can't start new thread True\n"


def zombies_of(user: str) -> list[Path]:
    """Zombie processes with these user ids."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            text = status.read_text()
            if "\nState:\tZ" in text and user in text:
                found.append(status)
    return found


def test_orphans_that_have_ended_leave_no_process(sandbox: Sandbox) -> None:
    mark = MARK % os.getpid()
    code = f"""
import os, subprocess, sys
for _ in range(20):
    child = os.fork()
    if child == 0:
        try: os.fork()
        finally: os._exit(0)
    os.waitpid(child, 0)
subprocess.run([sys.executable, "-c", "import time; time.sleep(1000)", "orphans-{mark}"])
"""
    with sandbox.started(code, run_timeout=100):
        (last,) = wait_for(lambda: processes_with(f"\0orphans-{mark}") or None, "it is running")
        lines = Path(f"/proc/{last}/status").read_text().splitlines()
        (user,) = (line for line in lines if line.startswith("Uid:"))
        wait_for(lambda: not zombies_of(user), "its orphans have been reaped", 60)
        os.kill(int(last), signal.SIGKILL)


def test_a_fork_bomb_does_not_affect_others(sandbox: Sandbox) -> None:
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    forks = "import os\npids = [os.fork() for _ in range(4)]\nprint(len(pids)) if all(pids) else 0"
    with sandbox.started(bomb, run_timeout=4):
        assert sandbox.output(forks).strip() == "4"


def test_a_busy_loop_that_ignores_signals_is_killed_at_its_timeout(sandbox: Sandbox) -> None:
    code = """
import signal
for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
print('spinning', flush=True)
while True: pass
"""
    result = with_enough_time(
        lambda seconds: sandbox.run(code, run_timeout=seconds)["run_result"],
        lambda result: bool(result["stdout"]),
    )
    assert result["status"] == "TimeLimitExceeded"
    assert result["return_code"] is None
    assert result["stdout"] == "spinning\n"


def test_the_init_process_of_a_run_cannot_be_slowed_down(sandbox: Sandbox) -> None:
    code = """
import os, resource
slowed = []
ways = {
    'policy': lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
    'parameters': lambda: os.sched_setparam(1, os.sched_param(0)),
    'processors': lambda: os.sched_setaffinity(1, {0}),
    'priority': lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    'all of a user': lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
    'limits': lambda: resource.prlimit(1, resource.RLIMIT_CPU, (1, 1)),
}
for name, way in ways.items():
    try: way()
    except PermissionError: continue
    slowed.append(name)
os.nice(1)
os.setpriority(os.PRIO_PROCESS, 0, 19)
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.sched_setscheduler(os.getpid(), os.SCHED_BATCH, os.sched_param(0))
print(slowed)
"""
    assert sandbox.output(code) == "[]\n"


def test_daemons_die_with_their_program(sandbox: Sandbox) -> None:
    mark = MARK % os.getpid()
    code = f"""
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(3): os.close(number)
        os.execv('/bin/sleep', ['{mark}', '600'])
    os._exit(0)
os.wait()
"""
    assert sandbox.run(code)["status"] == "Success"
    wait_for(lambda: not processes_with(mark), "the daemon has ended")


def test_a_child_holding_the_output_does_not_delay_the_result(sandbox: Sandbox) -> None:
    code = "import subprocess\nsubprocess.Popen(['sleep', '600'])\nprint('done')"
    answer = sandbox.run(code, run_timeout=30)
    assert answer["status"] == "Success"
    assert answer["run_result"]["stdout"] == "done\n"


def test_kill_minus_one_reaches_no_other_run(sandbox: Sandbox) -> None:
    other = "import time; time.sleep(1); print('alive')"
    killer = "import os, signal\nos.kill(-1, signal.SIGKILL)\nprint('alone')"
    with sandbox.started(other) as answer:
        for _ in range(3):
            sandbox.run(killer)
    assert answer()["run_result"]["stdout"] == "alive\n"


def test_no_process_outside_can_be_signalled(sandbox: Sandbox) -> None:
    code = f"""
import os, signal
reached = []
for pid in [{sandbox.process.pid}, os.getppid(), *range(2, 3000)]:
    if pid in (0, os.getpid()): continue
    try: os.kill(pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError): continue
    reached.append(pid)
print(reached)
"""
    assert sandbox.output(code) == "[]\n"


def test_other_processes_cannot_be_read(sandbox: Sandbox) -> None:
    code = f"""
import os
read = []
try: others = set(os.listdir('/proc'))
except OSError: others = set()
for pid in {{'{sandbox.process.pid}', '1', str(os.getppid()), *filter(str.isdigit, others)}}:
    if pid == str(os.getpid()): continue
    for name in ('environ', 'mem', 'maps', 'stack', 'fd', 'cwd', 'root', 'exe'):
        path = f'/proc/{{pid}}/{{name}}'
        try: open(path, 'rb').read(1) if name in 'environ mem maps stack' else os.readlink(path)
        except OSError:
            try: os.listdir(path)
            except OSError: continue
        read.append(path)
print(read)
"""
    assert sandbox.output(code) == "[]\n"


def test_the_services_environment_is_hidden(sandbox: Sandbox) -> None:
    code = "import os, subprocess\nprint(dict(os.environ), open('/proc/self/environ').read())"
    seen = sandbox.output(code)
    assert "hunter2" not in seen
    assert "TEMPER" not in seen


def test_no_process_can_be_traced(sandbox: Sandbox) -> None:
    code = """
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
child = os.fork()
if child == 0:
    time.sleep(5); os._exit(0)
attached = [pid for pid in (child, 1, os.getppid()) if libc.ptrace(16, pid, 0, 0) == 0]
print(attached, libc.ptrace(0, 0, 0, 0))
"""
    assert sandbox.output(code) == "[] -1\n"


def test_limit_kills_are_reported(sandbox: Sandbox) -> None:
    crash = "import ctypes; ctypes.string_at(0)"
    assert sandbox.run(crash)["run_result"]["return_code"] == -signal.SIGSEGV
    abort = "import os; os.abort()"
    assert sandbox.run(abort)["run_result"]["return_code"] == -signal.SIGABRT
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert sandbox.run(kill)["run_result"]["return_code"] == -signal.SIGKILL


def test_os_exit_ends_the_program(sandbox: Sandbox) -> None:
    answer = sandbox.run("import os; os.write(1, b'kept'); print('lost'); os._exit(7)")
    assert answer["status"] == "Failed"
    assert answer["run_result"]["return_code"] == 7
    assert answer["run_result"]["stdout"] == "kept"


def test_deep_recursion_kills_only_the_program(sandbox: Sandbox) -> None:
    plain = sandbox.run("def f(): f()\nf()")["run_result"]
    assert "RecursionError" in plain["stderr"]
    deep = "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f([x]) + 1\nf(0)"
    # It ends by its stack, its memory or its time, whichever the tier bounds first.
    assert sandbox.run(deep, run_timeout=10)["status"] == "Failed"
