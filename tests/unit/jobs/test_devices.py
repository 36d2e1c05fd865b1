"""The devices of a host, with a fake NVML."""

import pytest

from services.jobs.devices import HostDevices
from services.jobs.gpus import gpu_memory, gpu_use, occupied_gpus, visible_gpus
from tests.unit.jobs.fake_nvml import GIB, FakeNvml

CARDS = {"GPU-a": (0, 80 * GIB), "GPU-b": (0, 80 * GIB), "GPU-c": (0, 24 * GIB)}


@pytest.fixture(autouse=True)
def _no_restriction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_machine_without_a_driver_has_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNvml({}, missing=True).install(monkeypatch)

    assert visible_gpus() == ()


@pytest.mark.parametrize(
    ("allowed", "visible"),
    [
        (None, ("GPU-a", "GPU-b", "GPU-c")),
        ("0,2", ("GPU-a", "GPU-c")),
        ("GPU-b", ("GPU-b",)),
        ("", ()),
    ],
)
def test_the_operator_restricts_gpus_by_index_or_uuid(
    monkeypatch: pytest.MonkeyPatch, allowed: str | None, visible: tuple[str, ...]
) -> None:
    nvml = FakeNvml(CARDS)
    nvml.install(monkeypatch)
    if allowed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", allowed)

    assert visible_gpus() == visible
    assert nvml.open == 0


def test_gpu_occupancy_is_relative_to_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    two_gib = 2 * GIB
    nvml = FakeNvml({"large": (two_gib, 80 * GIB), "small": (two_gib, 8 * GIB)})
    nvml.install(monkeypatch)

    assert occupied_gpus(["large", "small"]) == {"small"}
    assert nvml.open == 0


def test_the_use_of_gpus_is_told_by_those_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(CARDS, percent={"GPU-a": 97})
    nvml.install(monkeypatch)

    (use,) = gpu_use(["GPU-a", "GPU-b"])
    assert (use.gpu, use.percent, use.total) == ("GPU-a", 97, 80 * GIB)
    assert nvml.open == 0

    FakeNvml({}, missing=True).install(monkeypatch)
    assert gpu_use(["GPU-a"]) == ()


def test_the_memory_of_each_gpu_is_its_total(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(CARDS)
    nvml.install(monkeypatch)

    assert gpu_memory(["GPU-c", "GPU-a"]) == (24 * GIB, 80 * GIB)
    assert gpu_memory([]) == ()
    assert nvml.open == 0


def test_a_host_names_its_cpu_slots() -> None:
    assert HostDevices("box", (), 2).slot_ids() == ["cpu-box-0", "cpu-box-1"]


def test_a_host_names_its_remote_slots() -> None:
    devices = HostDevices("box", (), 2, remote_slots=2)

    assert devices.remote_slot_ids() == ["remote-box-0", "remote-box-1"]
