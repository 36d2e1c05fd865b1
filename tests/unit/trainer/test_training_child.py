"""The environment that the child of offline training computes in."""

import os
import sys
from pathlib import Path

import pytest

from services.trainer.offline import __main__ as child


@pytest.mark.parametrize(("given", "threads"), [(None, "6"), ("3", "3")])
def test_all_cores_compute_unless_the_operator_names_a_number(
    given: str | None, threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"PATH": os.environ["PATH"]}
    if given is not None:
        environment["OMP_NUM_THREADS"] = given
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(child, "usable_cores", lambda: 6)
    monkeypatch.setattr(sys, "argv", ["child", str(tmp_path)])

    assert child.main() == 1  # there is no spec

    assert environment["OMP_NUM_THREADS"] == threads
