"""Choosing how programs are isolated: by trying, never by guessing from versions."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.contracts.errors import ConfigurationError
from services.sandbox.guest import landlock
from services.sandbox.isolation.cgroups import Cgroups
from services.sandbox.isolation.hierarchy import Controller
from services.sandbox.isolation.measures import SCOPES_ABI, Measure, measures
from services.sandbox.isolation.seccomp import compile_filter
from services.sandbox.isolation.tier import Tier
from services.sandbox.isolation.users import Users, claim_users

_REPOSITORY = Path(__file__).resolve().parents[3]
_TRIAL = "services.sandbox.isolation.trial"
_TRIAL_SECONDS = 30.0
_NO_LIST = (
    "TEMPER_SANDBOX_NETWORK_ALLOW is set, and without a network namespace of a run's own there is "
    "nothing through which a program could reach some destinations and no others"
)


@dataclass(frozen=True)
class Isolation:
    """How programs are isolated here.

    ``users`` are the ids that programs get outside of their sandbox; None when the service is no
    root, and they keep its own. ``scoped`` says that Landlock keeps
    signals and abstract sockets to a run, ``memory_counted`` that a control group counts its
    memory. ``seccomp_filter`` is an array of struct sock_filter. ``not_stronger`` says why the
    tiers above this one were not chosen, empty when there is none.
    """

    tier: Tier
    users: Users | None
    landlock_abi: int
    scoped: bool
    memory_counted: bool
    seccomp_filter: bytes
    measures: tuple[Measure, ...]
    not_stronger: str

    @property
    def first_user(self) -> int | None:
        """The first of the ``users``."""
        return None if self.users is None else self.users.first


def choose_tier(
    minimum: Tier, wanted: Tier | None, cgroups: Cgroups, reachable: Sequence[str] = ()
) -> Isolation:
    """Return the strongest isolation that works here, or the ``wanted`` one.

    ``reachable`` are destinations outside that programs shall reach; no tier but the full one
    could keep them to these. Takes some tenths of a second. Raises `ConfigurationError`, saying
    what to enable, when none that is at least ``minimum`` works.
    """
    abi = landlock.abi()
    if abi == 0:
        raise ConfigurationError(
            "the sandbox needs Landlock, which this kernel lacks: it takes Linux 5.13 or newer "
            "with landlock among the security modules (kernel parameter lsm=landlock,...)"
        )
    refusals = []
    users = claim_users()
    for tier in Tier if wanted is None else (wanted,):
        if not tier.at_least(minimum):
            refusals.append(f"{tier}: weaker than the configured minimum, {minimum}")
            continue
        if reachable and tier is not Tier.FULL:
            refusals.append(f"{tier}: {_NO_LIST}")
            continue
        isolation = _isolation(tier, abi, cgroups, users, reachable, "; ".join(refusals))
        failure = _try(isolation)
        if failure is None:
            return isolation
        refusals.append(f"{tier}: {failure} ({advice(tier)})")
    raise ConfigurationError("programs cannot be isolated here. " + ". ".join(refusals))


def _isolation(
    tier: Tier,
    abi: int,
    cgroups: Cgroups,
    users: Users | None,
    reachable: Sequence[str],
    not_stronger: str,
) -> Isolation:
    scoped = abi >= SCOPES_ABI
    memory_counted = Controller.MEMORY in cgroups.controllers
    return Isolation(
        tier=tier,
        users=users,
        landlock_abi=abi,
        scoped=scoped,
        memory_counted=memory_counted,
        seccomp_filter=compile_filter(tier, memory_counted=memory_counted),
        measures=measures(tier, abi, cgroups, reachable),
        not_stronger=not_stronger,
    )


def _try(isolation: Isolation) -> str | None:
    """Confine a process as runs are; return what failed."""
    user = "own" if isolation.first_user is None else str(isolation.first_user)
    with tempfile.TemporaryDirectory(prefix="temper-sandbox-") as folder:
        command = [sys.executable, "-m", _TRIAL, isolation.tier, folder, user]
        try:
            trial = subprocess.run(
                [*command, isolation.seccomp_filter.hex()],
                cwd=_REPOSITORY,
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRIAL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"a confined process did not end within {_TRIAL_SECONDS:.0f} s"
    if trial.returncode == 0:
        return None
    return (trial.stdout or trial.stderr[-500:]).decode(errors="replace").strip()


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
