"""The strongest tier that works is chosen, for root, ordinary users and containers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.contracts.errors import ConfigurationError
from services.sandbox.isolation.cgroups import Cgroups
from services.sandbox.isolation.hierarchy import Controller
from services.sandbox.isolation.tier import Tier
from services.sandbox.isolation.tiers import Isolation, advice, choose_tier
from services.sandbox.isolation.users import SLOTS, claim_users, free_users
from tests.support.processes import REPOSITORY

NO_GROUPS = Cgroups([], dict.fromkeys(Controller, "not tried"))
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give every slot a user")

CHOOSE = """
import json, sys
from services.contracts.errors import ConfigurationError
from services.sandbox.isolation.tier import Tier
from services.sandbox.isolation.tiers import choose_tier
from tests.unit.sandbox.isolation.test_tiers import NO_GROUPS
try:
    isolation = choose_tier(Tier(sys.argv[1]), None, NO_GROUPS)
    print(json.dumps([isolation.tier, isolation.first_user, isolation.not_stronger]))
except ConfigurationError as error:
    print(json.dumps(["refused", None, error.message]))
"""

FORBID_NAMESPACES = """
import errno
from services.sandbox.guest import syscalls
from services.sandbox.isolation.bpf import ALLOW, Clause, ArgumentMatch, Rule, assemble, error
from tests.support.programs.confined import architecture, number_of
refused = Rule(error(errno.EPERM))
by_flags = Rule(error(errno.EPERM), (Clause((ArgumentMatch(0, (0,), mask=0x7E020000),), ALLOW),))
rules = {"unshare": refused, "mount": refused, "setns": refused, "clone": by_flags}
syscalls.install_filter(assemble(
    architecture(), {number_of(name): rule for name, rule in rules.items()},
    unknown=Rule(ALLOW), forbidden=range(0),
))
"""
"""The default seccomp filter of a container engine."""

FORBID_BY_SETTING = """
import os
from pathlib import Path
from services.sandbox.guest import syscalls
ready, go = os.pipe()
outside = os.fork()
if outside == 0:
    os.read(ready, 1)
    for kind in ("uid_map", "gid_map"):
        Path(f"/proc/{os.getppid()}/{kind}").write_text("0 0 65536")
    os._exit(0)
syscalls.unshare(syscalls.CLONE_NEWUSER)
os.write(go, b"+")
os.waitpid(outside, 0)
Path("/proc/sys/user/max_user_namespaces").write_text("0")
"""
"""Root of a user namespace, with the ids that a container has, in which no other can be made."""

ENGINE_CAPABILITIES = (
    "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,"
    "sys_chroot,mknod,audit_write,setfcap"
)


def choose_in(
    wrapper: list[str], *, before: str = "", minimum: Tier = Tier.CONTAINER
) -> tuple[str, int | None, str]:
    """Choose a tier in a process that ``wrapper`` starts and that runs ``before`` first."""
    done = subprocess.run(
        [*wrapper, sys.executable, "-c", before + CHOOSE, minimum],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    tier, first_user, reason = json.loads(done.stdout)
    return tier, first_user, reason


def as_ordinary_user() -> list[str]:
    # Nobody may be barred from the folder that Python is in: that much is let through.
    through = "+dac_read_search"
    ids = ["--reuid", "65534", "--regid", "65534", "--clear-groups"]
    return ["setpriv", *ids, "--inh-caps", through, "--ambient-caps", through, "--no-new-privs"]


def as_in_a_container() -> list[str]:
    kept = ",".join(f"+{name}" for name in ENGINE_CAPABILITIES.split(","))
    return ["setpriv", "--bounding-set", f"-all,{kept}", "--inh-caps", "-all", "--no-new-privs"]


@as_root
def test_a_non_root_user_gets_the_full_tier() -> None:
    tier, first_user, not_stronger = choose_in(as_ordinary_user())

    assert (tier, first_user, not_stronger) == ("full", None, "")


@as_root
def test_a_plain_container_gets_the_container_tier_with_a_reason() -> None:
    tier, first_user, not_stronger = choose_in(as_in_a_container(), before=FORBID_NAMESPACES)

    assert tier == "container"
    assert first_user is not None
    assert not_stronger.startswith("full: ")
    assert "Operation not permitted" in not_stronger


@as_root
def test_a_non_root_user_in_a_container_is_refused() -> None:
    tier, _, message = choose_in(as_ordinary_user(), before=FORBID_NAMESPACES)

    assert tier == "refused"
    assert "start the service as root" in message


@as_root
def test_a_setting_that_forbids_namespaces_is_named() -> None:
    tier, first_user, not_stronger = choose_in([], before=FORBID_BY_SETTING)

    assert tier == "container"
    assert "No space left on device" in not_stronger
    assert "sysctl -w user.max_user_namespaces=" in not_stronger
    assert first_user is not None
    assert first_user + SLOTS <= 65536


@as_root
def test_nothing_starts_below_the_minimum_tier() -> None:
    wrapper = as_in_a_container()
    tier, _, message = choose_in(wrapper, before=FORBID_NAMESPACES, minimum=Tier.FULL)

    assert tier == "refused"
    assert "container: weaker than the configured minimum, full" in message


@pytest.fixture(scope="module")
def strongest() -> Isolation:
    try:
        return choose_tier(Tier.CONTAINER, None, NO_GROUPS)
    except ConfigurationError as error:
        pytest.skip(error.message)


def test_the_chosen_tier_lists_its_measures(strongest: Isolation) -> None:
    enforced = {measure.name: measure.enforced for measure in strongest.measures}
    in_full = strongest.tier is Tier.FULL

    assert enforced["system_calls"]
    assert enforced["files"]
    assert enforced["network_namespace"] == enforced["pid_namespace"] == in_full
    assert not enforced["memory_cgroup"]
    assert len(enforced) == len(strongest.measures)
    assert all(measure.description for measure in strongest.measures)


def test_a_weaker_tier_can_be_requested_but_not_below_the_minimum() -> None:
    with pytest.raises(ConfigurationError, match="weaker than the configured minimum"):
        choose_tier(Tier.FULL, Tier.CONTAINER, NO_GROUPS)


@as_root
def test_the_container_tier_works_where_the_full_tier_does() -> None:
    isolation = choose_tier(Tier.CONTAINER, Tier.CONTAINER, NO_GROUPS)

    assert isolation.tier is Tier.CONTAINER
    assert isolation.not_stronger == ""


@as_root
@pytest.mark.parametrize(
    ("user_map", "first"),
    [
        ("0 100000 65536\n", 65534 - SLOTS),
        ("0 1000 1\n1 100000 65536\n", 65534 - SLOTS),
        ("0 1000 1\n", None),
        ("", None),
    ],
)
def test_programs_get_ids_that_are_mapped_and_unused(user_map: str, first: int | None) -> None:
    assert next(iter(free_users(user_map)), None) == first


@as_root
def test_two_containers_rarely_pick_the_same_ids() -> None:
    found = [free_users("0 0 4294967295\n")[0] for _ in range(20)]
    assert all(first >= 1_900_000_000 and first + SLOTS < 2**31 for first in found)
    assert len(set(found)) > 10


@as_root
def test_two_services_reserve_different_ids() -> None:
    one, other = claim_users(), claim_users()
    assert one is not None
    assert other is not None
    assert abs(one.first - other.first) >= SLOTS


def test_advice_names_the_blocking_settings(tmp_path: Path) -> None:
    for name, value in {
        "user/max_user_namespaces": "0",
        "user/max_net_namespaces": "0",
        "user/max_pid_namespaces": "100",
        "kernel/unprivileged_userns_clone": "0",
        "kernel/apparmor_restrict_unprivileged_userns": "1",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{value}\n")

    text = advice(Tier.FULL, tmp_path)

    assert "user.max_user_namespaces=16384 user.max_net_namespaces=16384" in text
    assert "max_pid" not in text
    assert "kernel.unprivileged_userns_clone=1" in text
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in text


def test_advice_omits_settings_that_are_fine(tmp_path: Path) -> None:
    assert "sysctl" not in advice(Tier.FULL, tmp_path)
