"""Commands that see a small file system of their own."""

import subprocess

import pytest

IN_A_SMALL_FILE_SYSTEM = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
"""Before a script, which may mount one."""


def require_mounts() -> None:
    """Skip the test where no file system can be mounted."""
    command = [*IN_A_SMALL_FILE_SYSTEM, "mount -t tmpfs tmpfs /mnt"]
    try:
        can_mount = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        can_mount = False
    if not can_mount:
        pytest.skip("needs unshare (util-linux) and user namespaces to have a small disk")
