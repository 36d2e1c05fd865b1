"""Finding runtimes, and what their processes inherit."""

import json
import os
from pathlib import Path

import pytest

from services.core.process.runtimes import (
    Accelerator,
    RuntimeMissing,
    child_environment,
    find_runtime,
)
from tests.support.processes import REPOSITORY


def install(runtimes: Path, stamp: str | None) -> None:
    (runtimes / "vllm" / "bin").mkdir(parents=True)
    (runtimes / "vllm" / "bin" / "python").touch()
    if stamp is not None:
        (runtimes / "vllm" / "runtime.json").write_text(stamp)


def test_an_installed_runtime_is_found(tmp_path: Path) -> None:
    install(tmp_path, json.dumps({"version": "abc", "accelerator": "cuda", "python": "3.11.7"}))

    runtime = find_runtime(tmp_path, "vllm")

    assert runtime.python == tmp_path / "vllm" / "bin" / "python"
    assert (runtime.version, runtime.accelerator) == ("abc", Accelerator.CUDA)


def test_a_missing_runtime_error_shows_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeMissing) as missing:
        find_runtime(tmp_path / "runtimes", "vllm")

    command = f"install.py vllm --home {tmp_path}"
    assert "not installed" in missing.value.message
    assert missing.value.message.endswith(command)
    assert (REPOSITORY / "infra" / "runtimes" / "install.py").is_file()


@pytest.mark.parametrize(
    ("stamp", "state"), [(None, "incompletely installed"), ("{", "damaged"), ("{}", "damaged")]
)
def test_an_incomplete_or_corrupt_runtime_counts_as_missing(
    tmp_path: Path, stamp: str | None, state: str
) -> None:
    install(tmp_path, stamp)

    with pytest.raises(RuntimeMissing, match=state):
        find_runtime(tmp_path, "vllm")


def test_a_child_inherits_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {
        "TEMPER_DATABASE_URL": "postgresql://u:p@h/d",
        "TEMPER_BROKER_URL": "redis://h",
        "TEMPER_ENDPOINT_KEYS": "{}",
        "OPENAI_API_KEY": "sk",
        "AWS_SECRET_ACCESS_KEY": "s",
        "PYTHONSTARTUP": "/tmp/x.py",
        "LD_PRELOAD": "/tmp/x.so",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)

    assert secrets.keys().isdisjoint(child_environment({}))


def test_a_child_inherits_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "HF_HUB_OFFLINE": "1",
        "HF_TOKEN": "hf",
        "https_proxy": "http://proxy",
        "SSL_CERT_FILE": "/ca.pem",
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        "NCCL_DEBUG": "INFO",
        "OMP_NUM_THREADS": "3",
        "TEMPER_PROCESS_TREE": "job-1",
    }
    for name, value in needed.items():
        monkeypatch.setenv(name, value)

    environment = child_environment({"OMP_NUM_THREADS": "1"})

    assert needed.items() - environment.items() == {("OMP_NUM_THREADS", "3")}
    assert environment["OMP_NUM_THREADS"] == "1"


def test_threads_of_a_child_wait_without_spinning_unless_the_operator_chose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert child_environment({})["OMP_WAIT_POLICY"] == "PASSIVE"

    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert child_environment({})["OMP_WAIT_POLICY"] == "ACTIVE"


def test_a_childs_python_path_is_only_this_repository(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")

    environment = child_environment({})

    assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(REPOSITORY)
    assert environment["PYTHONUNBUFFERED"] == "1"
