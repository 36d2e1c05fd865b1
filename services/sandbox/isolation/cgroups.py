"""Control groups for programs, below the group of the service itself.

Controllers that cannot be used here are left out, with the reason.
"""

import errno
from collections.abc import Mapping, Sequence

from services.sandbox.isolation.cgroup import Cgroup
from services.sandbox.isolation.hierarchy import (
    CgroupLocation,
    Controller,
    Hierarchy,
    claim,
    own_cgroups,
)


class Cgroups:
    """The control groups of one service.

    ``controllers`` are usable here; ``reasons`` says why the others are not.
    """

    def __init__(self, hierarchies: Sequence[Hierarchy], reasons: Mapping[Controller, str]) -> None:
        self._hierarchies = hierarchies
        self.reasons = reasons
        self.controllers = frozenset(Controller) - reasons.keys()

    def create(self, name: str) -> Cgroup:
        """Create a group; raises OSError, FileExistsError for a duplicate name."""
        return Cgroup(name, self._hierarchies)

    def close(self) -> None:
        """Remove all groups and kill what runs in them; raises OSError and TimeoutError."""
        for hierarchy in self._hierarchies:
            hierarchy.release()
        self._hierarchies = ()


def find_cgroups(prefix: str) -> Cgroups:
    """Claim every usable controller, in folders whose names begin with ``prefix``.

    Folders left behind by a killed service with the same prefix are removed first.
    """
    hierarchies = []
    reasons = dict.fromkeys(
        Controller, "neither the kernel nor the service's container offers such groups"
    )
    for location in own_cgroups():
        try:
            hierarchies.append(claim(location, prefix))
        except OSError as refused:
            reasons |= dict.fromkeys(location.controllers, _describe(refused, location))
        else:
            for controller in location.controllers:
                del reasons[controller]
    return Cgroups(hierarchies, reasons)


def _describe(refused: OSError, location: CgroupLocation) -> str:
    if refused.errno == errno.EROFS:
        return (
            f"{location.folder} is mounted read-only, Docker's default: with Docker 28 and cgroup "
            "v2, infra/compose/sandbox-cgroups.yml makes it writable"
        )
    if refused.errno in {errno.EACCES, errno.EPERM}:
        return (
            f"{location.folder} belongs to another user: start the service as root, "
            "or by systemd-run --user --scope -p Delegate=yes"
        )
    if refused.errno == errno.EBUSY:
        return (
            f"other processes share {location.folder}: start the service by systemd, or by "
            "systemd-run --scope, with Delegate=yes"
        )
    return f"{location.folder} cannot be used: {refused.strerror}"
