"""Control groups for programs, below the group that the service itself is in.

What cannot be used here is left out and told.
"""

import errno
from collections.abc import Mapping, Sequence

from services.sandbox.isolation.cgroup import Cgroup
from services.sandbox.isolation.hierarchy import Controller, Hierarchy, Place, claim, own_places


class Cgroups:
    """The groups of one service.

    ``controllers`` are those that work here; ``reasons`` says of each other one why it does not.
    """

    def __init__(self, hierarchies: Sequence[Hierarchy], reasons: Mapping[Controller, str]) -> None:
        self._hierarchies = hierarchies
        self.reasons = reasons
        self.controllers = frozenset(Controller) - reasons.keys()

    def create(self, name: str) -> Cgroup:
        """Make a group; raises OSError, FileExistsError when there is one of this name."""
        return Cgroup(name, self._hierarchies)

    def close(self) -> None:
        """Remove all groups, and end what still runs in them; raises OSError, TimeoutError."""
        for hierarchy in self._hierarchies:
            hierarchy.release()
        self._hierarchies = ()


def find_cgroups(prefix: str) -> Cgroups:
    """Take hold of every controller that works, in folders whose names begin with ``prefix``.

    Those that a killed service of the same prefix left behind are removed first.
    """
    hierarchies = []
    reasons = dict.fromkeys(
        Controller, "the kernel, or the container around the service, offers no such groups"
    )
    for place in own_places():
        try:
            hierarchies.append(claim(place, prefix))
        except OSError as refused:
            reasons |= dict.fromkeys(place.controllers, _in_words(refused, place))
        else:
            for controller in place.controllers:
                del reasons[controller]
    return Cgroups(hierarchies, reasons)


def _in_words(refused: OSError, place: Place) -> str:
    if refused.errno == errno.EROFS:
        return f"{place.folder} is read-only, as Docker mounts it by default"
    if refused.errno in {errno.EACCES, errno.EPERM}:
        return (
            f"{place.folder} belongs to another user: start the service as root, "
            "or by systemd-run --user --scope -p Delegate=yes"
        )
    if refused.errno == errno.EBUSY:
        return (
            f"processes of others share {place.folder}: start the service by systemd, or by "
            "systemd-run --scope, with Delegate=yes"
        )
    return f"{place.folder} cannot be used: {refused.strerror}"
