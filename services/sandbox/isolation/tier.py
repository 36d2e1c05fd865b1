"""The two strengths of isolation that the sandbox knows. There is no weaker one."""

from enum import StrEnum


class Tier(StrEnum):
    """What a program is kept apart by, the strongest first."""

    FULL = "full"  # namespaces of its own, a root of its own, seccomp, Landlock
    CONTAINER = "container"  # inside a plain container: a user id of its own, seccomp, Landlock

    def at_least(self, minimum: "Tier") -> bool:
        """Whether this tier is as strong as ``minimum``."""
        order = list(Tier)
        return order.index(self) <= order.index(minimum)
