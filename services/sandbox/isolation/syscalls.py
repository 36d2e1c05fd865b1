"""The system calls that programs may make, and the arguments they may pass.

A call on none of the lists fails with ENOSYS, so that the C library and language runtimes fall back
to the older call: clone3 to clone, whose flags can be checked. Names unknown to an architecture are
skipped.

Argument rules only look at values that the kernel truncates to 32 bits, and never behind pointers,
because that memory could change between check and use.
"""

import errno
import socket
import stat
from collections.abc import Mapping

from services.sandbox.isolation.bpf import ALLOW, ArgumentMatch, Clause, Rule, error

_FILES = """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2
    open openat openat2 creat close close_range lseek dup dup2 dup3 pipe pipe2
    fcntl flock ftruncate truncate fallocate fadvise64 readahead sync_file_range
    copy_file_range sendfile splice tee fsync fdatasync
    stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2
    getdents getdents64 getcwd chdir fchdir readlink readlinkat
    mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2
    link linkat symlink symlinkat chmod fchmod fchmodat chown fchown lchown fchownat umask
    utime utimes utimensat futimesat
    getxattr lgetxattr fgetxattr setxattr lsetxattr fsetxattr
    listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr
    inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
"""
_WAITING = """
    select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait
    epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime
"""
_SOCKETS = """
    connect bind listen accept accept4 shutdown getsockname getpeername getsockopt setsockopt
    sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg
"""
_MEMORY = """
    mmap mprotect munmap mremap msync madvise mincore brk mlock mlock2 munlock mlockall munlockall
    membarrier pkey_alloc pkey_free pkey_mprotect mbind get_mempolicy set_mempolicy
"""
_PROCESSES = """
    fork vfork execve execveat exit exit_group wait4 waitid pidfd_open pidfd_send_signal
    kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo
    rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigreturn
    sigaltstack pause restart_syscall
    futex futex_waitv set_robust_list get_robust_list set_tid_address rseq
    arch_prctl set_thread_area get_thread_area
    gettid getpid getppid getpgid getpgrp getsid setpgid setsid
    getuid geteuid getgid getegid getresuid getresgid getgroups capget capset
    setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups
    getrlimit setrlimit getrusage getpriority setpriority ioprio_get ioprio_set times
    sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam sched_getattr
    sched_setattr sched_getscheduler sched_setscheduler sched_get_priority_max
    sched_get_priority_min sched_rr_get_interval getcpu
"""
_CLOCKS_AND_FACTS = """
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time alarm
    getitimer setitimer timer_create timer_settime timer_gettime timer_getoverrun timer_delete
    uname sysinfo getrandom
"""
ALLOWED = frozenset(
    name
    for group in (_FILES, _WAITING, _SOCKETS, _MEMORY, _PROCESSES, _CLOCKS_AND_FACTS)
    for name in group.split()
)

_WITHOUT_A_FILE = """
    shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    memfd_create
"""
PRIVATE_IPC = frozenset(_WITHOUT_A_FILE.split())
"""Memory and queues that belong to no process and no file: allowed only where a namespace destroys
them with the run and a control group accounts for them.
"""

_ADMINISTRATION = """
    unshare setns mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount
    fspick mount_setattr open_by_handle_at name_to_handle_at fanotify_init fanotify_mark
    ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp
    bpf perf_event_open userfaultfd keyctl add_key request_key
    init_module finit_module delete_module kexec_load kexec_file_load reboot
    swapon swapoff quotactl quotactl_fd acct syslog vhangup
    sethostname setdomainname settimeofday clock_settime clock_adjtime adjtimex
    iopl ioperm move_pages migrate_pages
"""
REFUSED = frozenset(_ADMINISTRATION.split())
"""Calls that programs expect to be privileged: they fail with EPERM."""

WITHOUT_EFFECT = frozenset({"sync", "syncfs"})
"""Calls that succeed without effect: nothing of a run is persistent, and programs must not stall
the disks.
"""


_NEW_NAMESPACES = (
    0x0002_0000  # mount
    | 0x0200_0000  # cgroup
    | 0x0400_0000  # uts
    | 0x0800_0000  # ipc
    | 0x1000_0000  # user
    | 0x2000_0000  # pid
    | 0x4000_0000  # network
)

_SIBLING = 0x8000
"""CLONE_PARENT: the child would be the slot's, which would have to reap it."""

_PROCESS_OPTIONS = (
    *(1, 2, 3, 4),  # signal on parent death; dumpable
    *(7, 8, 23, 24, 27, 28, 38, 39, 47),  # capabilities and no_new_privs: can only drop
    *(15, 16, 21, 25, 26, 29, 30),  # name; seccomp mode; time-stamp counter; timer slack
    *(36, 37, 40, 41, 42),  # child subreaper; thread pointer; huge pages
    *(50, 51, 52, 53, 54, 55, 56, 60, 61, 63, 64, 65, 66),  # processor features
    *(0x53564D41, 0x59616D61),  # names of memory areas; Yama tracer
)

_DEVICE_CONTROLS = (
    *(0x5401, 0x5402, 0x5403, 0x5404, 0x5405, 0x5406, 0x5409, 0x540A, 0x540B),  # terminal modes
    *(0x540C, 0x540D, 0x540E, 0x540F, 0x5410, 0x5411, 0x5413, 0x5414, 0x5420),  # sessions, size
    *(0x5422, 0x5424, 0x5425, 0x5429, 0x5441),
    *(0x802C542A, 0x402C542B, 0x402C542C, 0x402C542D),
    *(0x80045430, 0x40045431, 0x80045432, 0x80045438, 0x80045439, 0x80045440),  # pseudo-terminals
    *(0x541B, 0x5421, 0x5450, 0x5451, 0x5452, 0x5460),  # for any descriptor
    *(0x2, 0x80086601, 0x80087601),  # block size, flags and generation of a file
    *(0x8905, 0x8906, 0x8907, 0x8910, 0x8912, 0x8913, 0x8915, 0x8917, 0x8919, 0x891B, 0x891D),
    *(0x8921, 0x8927, 0x8933, 0x8938, 0x8942, 0x8946, 0x8970),  # reading network interfaces
    0x80045200,  # available entropy
)
"""Deliberately missing: terminal input (TIOCSTI, TIOCLINUX), line disciplines (TIOCSETD)."""

_NVIDIA_CONTROLS = (
    Clause((ArgumentMatch(1, (0x4600,), mask=0xFF00),), ALLOW),
    Clause((ArgumentMatch(1, (0x0000_0000, 0x3000_0000), mask=0xFFFF_FF00),), ALLOW),
)
"""The whole range of the driver: its device nodes are visible only if the operator shows a GPU."""

_FIRST_PROCESS = (1,)
_SCHEDULING = ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler")
_SPARING_THE_FIRST = Rule(ALLOW, (Clause((ArgumentMatch(0, _FIRST_PROCESS),), error(errno.EPERM)),))
"""The init process of a run has the program's user id, but must not be slowed down: it ends the
run.
"""

_OF_A_PROCESS, _OF_A_USER = (0,), (2,)
_PRIORITIES = Rule(
    ALLOW,
    (
        Clause(
            (ArgumentMatch(0, _OF_A_PROCESS), ArgumentMatch(1, _FIRST_PROCESS)), error(errno.EPERM)
        ),
        Clause((ArgumentMatch(0, _OF_A_USER),), error(errno.EPERM)),
    ),
)

_TCP, _UDP, _MULTIPATH_TCP = 6, 17, 262
_SOCKET_TYPE = 0xF  # the other bits are flags


def argument_rules(*, own_network: bool, own_processes: bool, sockets: bool) -> Mapping[str, Rule]:
    """The rules of calls that depend on their arguments.

    ``own_network`` and ``own_processes`` mean that programs have a network and a pid namespace;
    without ``sockets`` they get socket pairs only.
    """
    return {
        "clone": Rule(
            error(errno.EPERM),
            (Clause((ArgumentMatch(0, (0,), mask=_NEW_NAMESPACES | _SIBLING),), ALLOW),),
        ),
        "mknod": _nodes(mode=1),
        "mknodat": _nodes(mode=2),
        "ioctl": Rule(
            error(errno.ENOTTY),
            (Clause((ArgumentMatch(1, _DEVICE_CONTROLS),), ALLOW), *_NVIDIA_CONTROLS),
        ),
        "prctl": _one_of(0, _PROCESS_OPTIONS, errno.EINVAL),
        # PER_LINUX, a query, ADDR_NO_RANDOMIZE, or UNAME26
        "personality": _one_of(0, (0, 0xFFFF_FFFF, 0x0004_0000, 0x0002_0000), errno.EPERM),
        "prlimit64": _SPARING_THE_FIRST if own_processes else _one_of(0, (0,), errno.EPERM),
        **dict.fromkeys(_SCHEDULING, _SPARING_THE_FIRST),
        "setpriority": _PRIORITIES,
        "socketpair": _one_of(0, (socket.AF_UNIX,), errno.EAFNOSUPPORT),
        "socket": Rule(error(errno.EAFNOSUPPORT), _socket_clauses(own_network, sockets)),
    }


def _one_of(argument: int, values: tuple[int, ...], otherwise: int) -> Rule:
    return Rule(error(otherwise), (Clause((ArgumentMatch(argument, values),), ALLOW),))


def _nodes(mode: int) -> Rule:
    kinds = (0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)
    allowed = Clause((ArgumentMatch(mode, kinds, mask=0xF000),), ALLOW)
    return Rule(error(errno.EPERM), (allowed,))


def _socket_clauses(own_network: bool, sockets: bool) -> tuple[Clause, ...]:
    if not sockets:
        return ()
    local = Clause((ArgumentMatch(0, (socket.AF_UNIX,)),), ALLOW)
    if not own_network:
        return (local,)
    internet = ArgumentMatch(0, (socket.AF_INET, socket.AF_INET6))
    return (
        local,
        Clause(
            (
                internet,
                ArgumentMatch(1, (socket.SOCK_STREAM, socket.SOCK_DGRAM), mask=_SOCKET_TYPE),
                ArgumentMatch(2, (0, _TCP, _UDP)),
            ),
            ALLOW,
        ),
        # Rare protocols would make the kernel load modules; raw sockets need a privilege.
        Clause(
            (internet, ArgumentMatch(1, (socket.SOCK_RAW,), mask=_SOCKET_TYPE)), error(errno.EPERM)
        ),
        Clause((internet,), error(errno.EPROTONOSUPPORT)),
        Clause((ArgumentMatch(0, (socket.AF_NETLINK,)), ArgumentMatch(2, (0,))), ALLOW),
    )
