"""How a program drops its privileges before it reads what a user sent."""

import contextlib
import os
import resource

from services.sandbox.guest import landlock, syscalls
from services.sandbox.guest.layout import Configuration, Layout
from services.sandbox.guest.network import watch_sockets

_STACK_BYTES = 64 << 20
_LOCKED_BYTES = 8 << 20
_LOWEST_PRIORITY = 19
_HIGHEST_OOM_SCORE = 1000


def limit_resources(configuration: Configuration) -> None:
    """Set the resource limits of a slot, which its processes inherit."""
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, configuration.open_files),
        (resource.RLIMIT_FSIZE, configuration.disk_bytes),
        (resource.RLIMIT_MEMLOCK, _LOCKED_BYTES),
        (resource.RLIMIT_STACK, _STACK_BYTES),
    ):
        resource.setrlimit(kind, (value, value))


def confine(configuration: Configuration, layout: Layout, user: int | None) -> int | None:
    """Irrevocably drop privileges: rlimits, Landlock, seccomp; raises OSError.

    In the container tier also become ``user``. Returns the descriptor of `watch_sockets` where a
    run has a network that can be kept.
    """
    os.setsid()
    if configuration.sampled:
        os.nice(_LOWEST_PRIORITY)  # so that the sampling slot always gets its turn
    set_oom_score(_HIGHEST_OOM_SCORE)  # for good: from here on /proc is read-only
    resource.setrlimit(resource.RLIMIT_NPROC, (configuration.processes, configuration.processes))
    own = () if user is None else (f"/proc/{os.getpid()}",)
    landlock.restrict(
        (*configuration.readable, *own),
        (*configuration.writable, *layout),
        scope=configuration.scoped,
        deny_tcp=user is not None,
    )
    if user is not None:
        os.umask(0o077)  # hide its files in shared memory from other runs
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    syscalls.die_with_parent()
    syscalls.set_dumpable(True)  # changing the user cleared it, and with it access to /proc/self
    syscalls.renounce_privileges()
    is_kept = user is None and not configuration.proxied
    sockets = watch_sockets() if is_kept else None
    syscalls.install_filter(configuration.seccomp)
    return sockets


def set_oom_score(score: int) -> None:
    """Have this process and its future forks killed before others of a lower score."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"%d" % score)
