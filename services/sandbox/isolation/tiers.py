"""Chooses the isolation tier by trial, never by kernel version."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.contracts.errors import ConfigurationError
from services.core.process.tree import run_tree
from services.sandbox.guest import landlock
from services.sandbox.isolation.cgroups import Cgroups
from services.sandbox.isolation.hierarchy import Controller
from services.sandbox.isolation.measures import SCOPES_ABI, Measure, measures
from services.sandbox.isolation.seccomp import compile_filter
from services.sandbox.isolation.surroundings import default_gateways, is_container
from services.sandbox.isolation.tier import Tier
from services.sandbox.isolation.users import Users, claim_users

_REPOSITORY = Path(__file__).resolve().parents[3]
_TRIAL = "services.sandbox.isolation.trial"
_TRIAL_SECONDS = 30.0
_NO_LIST = (
    "TEMPER_SANDBOX_NETWORK_ALLOW is set, and only a private network namespace can restrict "
    "programs to certain destinations"
)


@dataclass(frozen=True)
class Isolation:
    """How programs are isolated on this machine.

    ``users`` are the ids of programs on the host; None if the service is not root and they keep its
    own. ``scoped`` means that Landlock keeps signals and abstract sockets within a run,
    ``memory_counted`` that a control group accounts for memory. ``seccomp_filter`` is an array of
    struct sock_filter. ``not_stronger`` says why stronger tiers were not chosen, if any.
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
        """The first of ``users``."""
        return None if self.users is None else self.users.first


def choose_tier(
    minimum: Tier, wanted: Tier | None, cgroups: Cgroups, reachable: Sequence[str] = ()
) -> Isolation:
    """Return the strongest isolation that works here, or the ``wanted`` one.

    Only the full tier can restrict programs to the destinations in ``reachable``. Takes some tenths
    of a second. Raises `ConfigurationError`, saying what to enable, if no tier of at least
    ``minimum`` works.
    """
    abi = landlock.abi()
    if abi == 0:
        raise ConfigurationError(
            "the sandbox needs Landlock, which this kernel lacks: it requires Linux 5.13 or newer "
            "with the landlock security module (kernel parameter lsm=landlock,...)"
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
        measures=measures(tier, abi, cgroups, reachable, default_gateways()),
        not_stronger=not_stronger,
    )


def _try(isolation: Isolation) -> str | None:
    """Confine a process like a run; return the failure, if any."""
    user = "own" if isolation.first_user is None else str(isolation.first_user)
    with tempfile.TemporaryDirectory(prefix="temper-sandbox-") as folder:
        command = [sys.executable, "-m", _TRIAL, isolation.tier, folder, user]
        try:
            trial = run_tree(
                [*command, isolation.seccomp_filter.hex()],
                seconds=_TRIAL_SECONDS,
                cwd=_REPOSITORY,
                environment={},
            )
        except subprocess.TimeoutExpired:
            return f"a confined process did not end within {_TRIAL_SECONDS:.0f} s"
    if trial.returncode == 0:
        return None
    return (trial.stdout or trial.stderr[-500:]).decode(errors="replace").strip()


_KINDS = ("user", "pid", "mnt", "net", "ipc", "uts")


def advice(tier: Tier, settings: Path = Path("/proc/sys")) -> str:
    """How an administrator can enable a tier; ``settings`` is the kernel's /proc/sys."""
    if tier is Tier.CONTAINER:
        return (
            "start the service as root with the capabilities CHOWN, DAC_OVERRIDE, SETUID and "
            "SETGID and at least 65536 user ids, Docker's default"
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
    if is_container():
        yield (
            "let the container create namespaces: docker run --security-opt seccomp=unconfined "
            "--security-opt apparmor=unconfined --security-opt systempaths=unconfined"
        )
    yield "the kernel must support user namespaces, and the service must be allowed to create them"


def _value(setting: Path) -> int | None:
    try:
        return int(setting.read_text())
    except (OSError, ValueError):
        return None
