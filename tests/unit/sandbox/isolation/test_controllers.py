"""The control groups of a process are found for every cgroup version and mount layout."""

from pathlib import Path

import pytest

from services.sandbox.isolation.hierarchy import CgroupLocation, Controller, find_cgroup_locations

FIRST_VERSION_MOUNTS = """\
30 24 0:26 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
"""


def test_cgroup_v1_has_one_folder_per_controller() -> None:
    groups = "4:memory:/jobs/7\n3:cpu,cpuacct:/\n2:pids:/jobs/7\n1:name=systemd:/x\n0::/\n"

    assert find_cgroup_locations(groups, FIRST_VERSION_MOUNTS) == [
        CgroupLocation(
            Path("/sys/fs/cgroup/memory/jobs/7"), 1, frozenset({Controller.MEMORY}), alone=False
        ),
        CgroupLocation(
            Path("/sys/fs/cgroup/cpu,cpuacct"), 1, frozenset({Controller.CPU}), alone=True
        ),
    ]


def test_cgroup_paths_without_a_cgroup_namespace_are_resolved() -> None:
    mounts = "32 30 0:28 /docker/f00 /sys/fs/cgroup/memory ro - cgroup cgroup ro,memory\n"

    (location,) = find_cgroup_locations("4:memory:/docker/f00/inner\n", mounts)

    assert location.folder == Path("/sys/fs/cgroup/memory/inner")


def test_groups_outside_the_mount_are_left_out() -> None:
    mounts = "32 30 0:28 /docker/f00 /sys/fs/cgroup/memory ro - cgroup cgroup ro,memory\n"

    assert find_cgroup_locations("4:memory:/elsewhere\n", mounts) == []


@pytest.mark.parametrize(("group", "alone"), [("/", True), ("/user.slice/a.scope", False)])
def test_cgroup_v2_has_one_folder_for_all_controllers(
    tmp_path: Path, group: str, alone: bool
) -> None:
    root = tmp_path / "control groups"
    folder = root / group.lstrip("/")
    folder.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids\n")
    escaped = str(root).replace(" ", r"\040")
    mounts = f"30 24 0:26 / {escaped} rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

    assert find_cgroup_locations(f"0::{group}\n", mounts) == [
        CgroupLocation(folder, 2, frozenset(Controller), alone=alone)
    ]
