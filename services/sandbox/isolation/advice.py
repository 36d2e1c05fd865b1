"""What an administrator can do when a tier does not work on a machine."""

import os
from collections.abc import Iterator
from pathlib import Path

from services.sandbox.isolation.tier import Tier

_KINDS = ("user", "pid", "mnt", "net", "ipc", "uts")
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


def advice(tier: Tier, settings: Path = Path("/proc/sys")) -> str:
    """Return what to enable for a tier that was tried in vain; ``settings`` are the kernel's."""
    if tier is Tier.CONTAINER:
        return (
            "start the service as root with the capabilities CHOWN, DAC_OVERRIDE, SETUID and "
            "SETGID and at least 65536 user ids, as Docker gives them to a container by default"
        )
    return "; ".join(_for_namespaces(settings))


def _for_namespaces(settings: Path) -> Iterator[str]:
    forbidden = [
        f"user.max_{kind}_namespaces"
        for kind in _KINDS
        if _value(settings / "user" / f"max_{kind}_namespaces") == 0
    ]
    if forbidden:
        yield "allow namespaces: sysctl -w " + " ".join(f"{name}=16384" for name in forbidden)
    if _value(settings / "kernel" / "unprivileged_userns_clone") == 0:
        yield "allow them to ordinary users: sysctl -w kernel.unprivileged_userns_clone=1"
    if _value(settings / "kernel" / "apparmor_restrict_unprivileged_userns") == 1:
        yield (
            "lift Ubuntu's restriction: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, "
            "or give the service's Python an AppArmor profile with the rule 'userns,'"
        )
    if any(os.path.exists(mark) for mark in _CONTAINER_MARKS):  # noqa: PTH110
        yield (
            "let the container make namespaces: docker run --security-opt seccomp=unconfined "
            "--security-opt apparmor=unconfined --security-opt systempaths=unconfined"
        )
    yield "the kernel must have user namespaces, and what confines the service must allow them"


def _value(setting: Path) -> int | None:
    try:
        return int(setting.read_text())
    except (OSError, ValueError):
        return None
