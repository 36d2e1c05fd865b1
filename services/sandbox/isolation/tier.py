"""The isolation tiers. There is no weaker one."""

from enum import StrEnum


class Tier(StrEnum):
    """Isolation tiers, strongest first."""

    FULL = "full"  # private namespaces and root, seccomp, Landlock
    CONTAINER = "container"  # in a plain container: a user id per slot, seccomp, Landlock

    def at_least(self, minimum: "Tier") -> bool:
        """Whether this tier is as strong as ``minimum``."""
        order = list(Tier)
        return order.index(self) <= order.index(minimum)
