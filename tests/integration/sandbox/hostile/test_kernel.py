"""Programs that make system calls that no program may make."""

import pytest

from tests.support.sandbox import Sandbox

PRELUDE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    numbers = NUMBERS[os.uname().machine]
    return libc.syscall(numbers[name], *arguments)
NUMBERS = {
    'x86_64': dict(
        mount=165, chroot=161, pivot_root=155, unshare=272, setns=308, clone=56,
        mknod=133, io_uring_setup=425, bpf=321, userfaultfd=323, keyctl=250, add_key=248,
        request_key=249, perf_event_open=298, init_module=175, kexec_load=246, reboot=169,
        swapon=167, open_by_handle_at=304, fsopen=430, open_tree=428, move_mount=429,
        process_vm_readv=310, pidfd_getfd=438, kcmp=312, personality=135, acct=163,
        quotactl=179, syslog=103, name_to_handle_at=303, memfd_secret=447
    ),
    'aarch64': dict(
        mount=40, chroot=51, pivot_root=41, unshare=97, setns=268, clone=220, mknod=33,
        io_uring_setup=425, bpf=280, userfaultfd=282, keyctl=219, add_key=217,
        request_key=218, perf_event_open=241, init_module=105, kexec_load=104, reboot=142,
        swapon=224, open_by_handle_at=265, fsopen=430, open_tree=428, move_mount=429,
        process_vm_readv=270, pidfd_getfd=438, kcmp=272, personality=92, acct=89,
        quotactl=60, syslog=116, name_to_handle_at=264, memfd_secret=447
    ),
}
"""
CALLS = {
    "mount": "call('mount', b'none', b'/tmp', b'tmpfs', 0, None)",
    "fsopen": "call('fsopen', b'tmpfs', 0)",
    "open_tree": "call('open_tree', -100, b'/', 1)",
    "chroot": "call('chroot', b'/')",
    "pivot_root": "call('pivot_root', b'.', b'.')",
    "unshare users": "call('unshare', 0x10000000)",
    "unshare mounts": "call('unshare', 0x00020000)",
    "unshare network": "call('unshare', 0x40000000)",
    "clone into namespaces": "call('clone', 0x10000000 | 0x20000000 | 17, 0, 0, 0, 0)",
    "clone as a child of the slot": "call('clone', 0x8000 | 17, 0, 0, 0, 0)",
    "setns": "call('setns', os.open('/proc/self/ns/net', os.O_RDONLY), 0)",
    "io_uring": "call('io_uring_setup', 8, ctypes.create_string_buffer(256))",
    "bpf": "call('bpf', 0, ctypes.create_string_buffer(128), 128)",
    "userfaultfd": "call('userfaultfd', 1)",
    "keyctl": "call('keyctl', 0, -3, 1)",
    "add_key": "call('add_key', b'user', b'x', b'y', 1, -3)",
    "request_key": "call('request_key', b'user', b'x', None, -3)",
    "perf_event_open": "call('perf_event_open', ctypes.create_string_buffer(128), 0, -1, -1, 0)",
    "init_module": "call('init_module', b'', 0, b'')",
    "kexec_load": "call('kexec_load', 0, 0, 0, 0)",
    "swapon": "call('swapon', b'/tmp/x', 0)",
    "open_by_handle_at": "call('open_by_handle_at', -100, ctypes.create_string_buffer(128), 0)",
    "process_vm_readv": "call('process_vm_readv', 1, 0, 0, 0, 0, 0)",
    "pidfd_getfd": "call('pidfd_getfd', os.pidfd_open(os.getpid()), 0, 0)",
    "kcmp": "call('kcmp', os.getpid(), os.getpid(), 0, 0, 0)",
    "syslog": "call('syslog', 3, ctypes.create_string_buffer(128), 128)",
    "quotactl": "call('quotactl', 0, None, 0, None)",
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_refused(sandbox: Sandbox, name: str) -> None:
    code = f"{PRELUDE}\ntry: result = {CALLS[name]}\nexcept OSError: result = -1\nprint(result)"
    assert sandbox.output(code) == "-1\n"


@pytest.mark.parametrize("kind", ["stat.S_IFCHR", "stat.S_IFBLK"])
def test_device_nodes_cannot_be_created(sandbox: Sandbox, kind: str) -> None:
    code = f"""
import os, stat
try: os.mknod('device', 0o600 | {kind}, os.makedev(1, 3))
except OSError: print('refused')
"""
    assert sandbox.output(code) == "refused\n"


def test_no_process_can_change_its_user(sandbox: Sandbox) -> None:
    code = """
import os
became = []
for user in (0, 1, 33, 65534, os.getuid() + 1):
    for change in (os.setuid, os.seteuid, os.setgid):
        try: change(user)
        except OSError: continue
        became.append(user)
print(became, os.getgroups())
"""
    assert sandbox.output(code).startswith("[] ")


def test_setuid_programs_gain_no_privileges(sandbox: Sandbox) -> None:
    code = """
import subprocess
for command in (['su', '-c', 'id -u'], ['mount'], ['passwd', '-S']):
    try: done = subprocess.run(command, capture_output=True, timeout=5, text=True)
    except (OSError, subprocess.TimeoutExpired): continue
    print(done.stdout.splitlines()[:1])
names = ('CapEff', 'CapPrm', 'NoNewPrivs')
print([line for line in open('/proc/self/status') if line.startswith(names)])
"""
    output = sandbox.output(code)
    assert "['0']" not in output
    assert "CapEff:\\t0000000000000000" in output
    assert "NoNewPrivs:\\t1" in output


def test_the_seccomp_filter_is_inherited_and_survives_exec(sandbox: Sandbox) -> None:
    code = (
        "unshare -Ur true 2>/dev/null && echo made; unshare -n true 2>/dev/null && echo made; true"
    )
    assert sandbox.output(code, language="bash") == ""


def test_terminal_input_cannot_be_injected(sandbox: Sandbox) -> None:
    code = """
import fcntl, os
try:
    terminal = os.open('/dev/tty', os.O_RDWR)
    fcntl.ioctl(terminal, 0x5412, b'x')
    print('typed')
except OSError: print('refused')
"""
    assert sandbox.output(code) == "refused\n"
