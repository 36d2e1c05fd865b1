"""Under the filter ordinary programs work, and escapes are refused."""

import asyncio
import ctypes
import errno
import fcntl
import mmap
import os
import platform
import pty
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path

import pytest

from services.contracts.errors import ConfigurationError
from services.sandbox.guest import syscalls
from services.sandbox.isolation.bpf import ALLOW, KILL, error
from services.sandbox.isolation.seccomp import compile_filter
from services.sandbox.isolation.tier import Tier
from tests.support.programs.confined import Killed, call, filtered, in_fork, number_of
from tests.unit.sandbox.isolation.bpf_machine import evaluate

FULL = compile_filter(Tier.FULL, memory_counted=True)
UNCOUNTED = compile_filter(Tier.FULL, memory_counted=False)
CONTAINER = compile_filter(Tier.CONTAINER, memory_counted=True)
UNCOUNTED_CONTAINER = compile_filter(Tier.CONTAINER, memory_counted=False)
BOTH = pytest.mark.parametrize("program", [FULL, CONTAINER], ids=["full", "container"])

X86_64, AARCH64, I386 = 0xC000_003E, 0xC000_00B7, 0x4000_0003
NEW_NAMESPACES = {
    "mount": 0x0002_0000,
    "cgroup": 0x0200_0000,
    "uts": 0x0400_0000,
    "ipc": 0x0800_0000,
    "user": 0x1000_0000,
    "pid": 0x2000_0000,
    "network": 0x4000_0000,
}
TYPE_INTO_TERMINAL, LINUX_CONSOLE, LINE_DISCIPLINE = 0x5412, 0x541C, 0x5423

on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="another machine's calls")


def refusal(program: bytes, name: str, *arguments: object) -> int | None:
    """The errno that a call gets, None when it works."""
    try:
        filtered(program, lambda: call(name, *arguments))
    except OSError as refused:
        return refused.errno
    return None


def refusals(program: bytes, names: Sequence[str], *arguments: object) -> dict[str, int | None]:
    """The errno that each call gets in one process, None when it works."""

    def refused_by(name: str) -> int | None:
        try:
            call(name, *arguments)
        except OSError as refused:
            return refused.errno
        return None

    found: dict[str, int | None] = filtered(
        program, lambda: {name: refused_by(name) for name in names}
    )
    return found


IO_URING = ("io_uring_setup", "io_uring_enter", "io_uring_register")
ADMINISTRATIVE = """
    unshare setns mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount
    fspick mount_setattr open_by_handle_at name_to_handle_at fanotify_init fanotify_mark ptrace
    process_vm_readv process_vm_writev pidfd_getfd kcmp bpf perf_event_open userfaultfd keyctl
    add_key request_key init_module finit_module delete_module kexec_load reboot swapon swapoff
    quotactl acct syslog vhangup sethostname setdomainname settimeofday clock_settime
    clock_adjtime adjtimex""".split()  # noqa: SIM905 - a list that long reads better so
NEWER = (
    "clone3",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "memfd_secret",
    "seccomp",
)


@BOTH
def test_administrative_system_calls_fail_with_eperm(program: bytes) -> None:
    found = refusals(program, ADMINISTRATIVE, 0, 0, 0, 0, 0)
    assert found == dict.fromkeys(ADMINISTRATIVE, errno.EPERM)


@BOTH
def test_newer_system_calls_fail_with_enosys(program: bytes) -> None:
    assert refusals(program, NEWER, 0, 0, 0) == dict.fromkeys(NEWER, errno.ENOSYS)


@BOTH
@pytest.mark.parametrize("flag", NEW_NAMESPACES.values(), ids=NEW_NAMESPACES)
def test_clone_cannot_create_namespaces(program: bytes, flag: int) -> None:
    assert refusal(program, "clone", flag | signal.SIGCHLD, 0, 0, 0, 0) == errno.EPERM


@BOTH
def test_no_further_filter_can_be_installed(program: bytes) -> None:
    set_seccomp, mode_filter = 22, 2

    assert refusal(program, "prctl", set_seccomp, mode_filter, 0, 0, 0) == errno.EINVAL


@BOTH
def test_the_personality_cannot_make_memory_executable(program: bytes) -> None:
    read_implies_exec = 0x0040_0000

    assert refusal(program, "personality", read_implies_exec) == errno.EPERM
    assert refusal(program, "personality", 0xFFFF_FFFF) is None


@BOTH
def test_terminal_injection_is_refused(program: bytes) -> None:
    def type_into_terminal() -> list[int | None]:
        _, terminal = pty.openpty()
        assert os.isatty(terminal)
        codes: list[int | None] = []
        for control in (TYPE_INTO_TERMINAL, LINUX_CONSOLE, LINE_DISCIPLINE):
            # the kernel itself reads 32 bits only: what is above them must not hide the number
            for number in (control, control | 1 << 32):
                try:
                    call("ioctl", terminal, number, ctypes.c_char_p(b"x"))
                    codes.append(None)
                except OSError as refused:
                    codes.append(refused.errno)
        return codes

    assert filtered(program, type_into_terminal) == [errno.ENOTTY] * 6


@BOTH
def test_fifos_can_be_created_but_not_device_nodes(program: bytes, tmp_path: Path) -> None:
    null = os.makedev(1, 3)

    def make_devices() -> list[bool]:
        # Not after giving up privileges, which are what device nodes need anyway.
        syscalls.install_filter(program)
        return [refused_node(mode) for mode in (0o020666, 0o060666)]

    def refused_node(mode: int) -> bool:
        try:
            os.mknod(tmp_path / "node", mode, null)
        except PermissionError:
            return True
        return False

    assert in_fork(make_devices) == [True, True]
    filtered(program, lambda: os.mkfifo(tmp_path / "node"))
    assert (tmp_path / "node").is_fifo()


@on_x86_64
@BOTH
def test_calls_of_32_bit_programs_kill(program: bytes) -> None:
    def getpid_of_i386() -> int:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        return int(ctypes.CFUNCTYPE(ctypes.c_int)(address)())

    with pytest.raises(Killed, match="SIGSYS"):
        filtered(program, getpid_of_i386)


@on_x86_64
@BOTH
def test_calls_of_x32_programs_kill(program: bytes) -> None:
    x32_getpid = 0x4000_0000 | number_of("getpid")

    with pytest.raises(Killed, match="SIGSYS"):
        filtered(program, lambda: ctypes.CDLL(None).syscall(x32_getpid))


def socket_errors(program: bytes, kinds: Sequence[tuple[int, int, int]]) -> list[int | None]:
    """What becomes of making sockets of these families, types and protocols."""

    def make() -> list[int | None]:
        errors: list[int | None] = []
        for kind in kinds:
            try:
                socket.socket(*kind).close()
                errors.append(None)
            except OSError as refused:
                errors.append(refused.errno)
        return errors

    made: list[int | None] = filtered(program, make)
    return made


def test_other_families_of_sockets_are_not_supported() -> None:
    ours = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}
    others = [family for family in range(64) if family not in ours]
    kinds = [(family, kind, 0) for family in others for kind in (1, 2, 3)]

    assert socket_errors(FULL, kinds) == [errno.EAFNOSUPPORT] * len(kinds)


def test_the_full_tier_allows_tcp_udp_and_reading_interfaces() -> None:
    families = (socket.AF_UNIX, socket.AF_INET)
    kinds = [(family, kind, 0) for family in families for kind in (1, 2)]

    assert socket_errors(FULL, kinds) == [None] * len(kinds)
    assert [name for _, name in filtered(FULL, socket.if_nameindex) if name == "lo"] == ["lo"]


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ((socket.AF_INET, socket.SOCK_RAW, 1), errno.EPERM),
        ((socket.AF_INET6, socket.SOCK_RAW, 58), errno.EPERM),
        ((socket.AF_INET, socket.SOCK_STREAM, 132), errno.EPROTONOSUPPORT),  # SCTP
        ((socket.AF_INET, socket.SOCK_STREAM, 262), errno.EPROTONOSUPPORT),  # multipath TCP
        ((socket.AF_INET, socket.SOCK_DGRAM, 136), errno.EPROTONOSUPPORT),  # UDP-Lite
        ((socket.AF_NETLINK, socket.SOCK_RAW, 9), errno.EAFNOSUPPORT),  # the audit log
        ((socket.AF_NETLINK, socket.SOCK_RAW, 12), errno.EAFNOSUPPORT),  # netfilter
    ],
)
def test_rare_protocols_are_refused(kind: tuple[int, int, int], answer: int) -> None:
    assert socket_errors(FULL, [kind]) == [answer]


@pytest.mark.parametrize("program", [CONTAINER, UNCOUNTED_CONTAINER])
def test_the_container_tier_has_no_sockets(program: bytes) -> None:
    kinds = [(family, kind, 0) for family in range(1, 64) for kind in (1, 2, 3)]
    assert socket_errors(program, kinds) == [errno.EAFNOSUPPORT] * len(kinds)


@pytest.mark.parametrize("program", [FULL, CONTAINER, UNCOUNTED_CONTAINER])
def test_socket_pairs_are_allowed_in_all_tiers(program: bytes) -> None:
    def talk() -> str:
        left, right = socket.socketpair()
        left.send(b"hello")
        return right.recv(5).decode()

    assert filtered(program, talk) == "hello"


@pytest.mark.parametrize(
    ("program", "is_sent"), [(FULL, True), (CONTAINER, False), (UNCOUNTED_CONTAINER, False)]
)
def test_sockets_of_the_container_tier_carry_no_descriptors(program: bytes, is_sent: bool) -> None:
    def send_one() -> bool:
        left, _right = socket.socketpair()
        try:
            socket.send_fds(left, [b"x"], [0])
        except PermissionError:
            return False
        return True

    assert filtered(program, send_one) is is_sent


@pytest.mark.parametrize("name", ["memfd_create", "shmget", "msgget", "semget", "mq_open"])
def test_memfd_and_sysv_need_a_namespace_and_accounting(name: str) -> None:
    arguments = (ctypes.c_char_p(b"x"), 0) if name == "memfd_create" else (0, 1, 0o600)

    assert refusal(CONTAINER, name, *arguments) == errno.ENOSYS
    assert refusal(UNCOUNTED, name, *arguments) == errno.ENOSYS
    assert refusal(FULL, name, *arguments) != errno.ENOSYS


def test_the_container_tier_allows_prlimit_for_oneself_only() -> None:
    files = resource.RLIMIT_NOFILE
    parent = os.getpid()

    assert refusal(CONTAINER, "prlimit64", parent, files, 0, 0) == errno.EPERM
    assert filtered(CONTAINER, lambda: resource.setrlimit(files, (64, 64))) is None


def square(number: int) -> int:
    return number * number


@BOTH
def test_ordinary_programs_work(program: bytes, tmp_path: Path) -> None:
    def work() -> list[object]:
        os.chdir(tmp_path)
        heard: list[object] = []
        thread = threading.Thread(target=heard.append, args=("thread",))
        thread.start()
        thread.join()
        with get_context("fork").Pool(2) as pool:
            heard += pool.map(square, [2, 3])
        shell = subprocess.run(
            ["/bin/sh", "-c", "echo $((1+1)) | cat; (true &); exit 3"],
            capture_output=True,
            text=True,
            check=False,
        )
        heard += [shell.stdout, shell.returncode]

        async def echo() -> str:
            child = await asyncio.create_subprocess_exec("echo", "async", stdout=-1)
            output, _ = await child.communicate()
            return output.decode()

        heard.append(asyncio.run(echo()))
        with open("locked", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
        heard.append(Path("locked").rename("renamed").name)
        return heard

    assert filtered(program, work) == ["thread", 4, 9, "2\n", 3, "async\n", "renamed"]


def test_a_local_server_works_in_the_full_tier() -> None:
    def serve() -> str:
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = socket.create_connection(server.getsockname())
            accepted, _ = server.accept()
            accepted.send(b"hello")
            return client.recv(5).decode()

    assert filtered(FULL, serve) == "hello"


@BOTH
def test_executed_programs_inherit_the_filter(program: bytes) -> None:
    script = "import os; os.chroot('/')"

    def run() -> str:
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
        return done.stderr

    assert "PermissionError" in filtered(program, run)


@pytest.mark.parametrize("tier", Tier)
def test_arm64_gets_the_same_decisions(tier: Tier) -> None:
    program = compile_filter(tier, memory_counted=True, machine="aarch64")

    def decision(name: str, *arguments: int, machine: int = AARCH64) -> int:
        number = number_of(name, AARCH64)
        return evaluate(program, machine, number, [*arguments, *[0] * (6 - len(arguments))])

    assert decision("openat") == decision("clone", signal.SIGCHLD) == ALLOW
    assert decision("clone", NEW_NAMESPACES["user"]) == error(errno.EPERM)
    assert decision("ptrace") == decision("unshare") == error(errno.EPERM)
    assert decision("clone3") == decision("io_uring_setup") == error(errno.ENOSYS)
    assert decision("mknodat", 0, 0, 0o020666) == error(errno.EPERM)
    assert decision("mknodat", 0, 0, 0o010666) == ALLOW
    assert decision("socket", 40, 1, 0) == error(errno.EAFNOSUPPORT)
    assert decision("openat", machine=X86_64) == decision("openat", machine=I386) == KILL


def test_an_unsupported_architecture_is_named() -> None:
    with pytest.raises(ConfigurationError, match="not of vax"):
        compile_filter(Tier.FULL, memory_counted=True, machine="vax")
