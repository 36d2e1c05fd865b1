"""A learner that shares a GPU with an engine, on a card that is counted instead of present."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from services.trainer.errors import TrainingFailure
from services.trainer.rl.learner.card_memory import CONTEXT_BYTES, CardMemory
from services.trainer.rl.learner.learner import Learner
from services.trainer.rl.learner.parallel import ProcessGroup
from services.trainer.rl.learner.protocol import ColocatedEngine, Update
from services.trainer.rl.learner.update import Updater, UpdateResult
from tests.support.training.learning import drawn_batch, learner_spec

TOTAL = 80 << 30
CUDA = torch.device("cuda", 0)
CAP = 0.55 - CONTEXT_BYTES / TOTAL


@dataclass
class Card:
    """An allocator's memory on a GPU: tensors, and its cache of freed blocks."""

    tensors: int = 0
    cached: int = 0
    cap: float = 1.0
    done: list[str] = field(default_factory=list)

    def set_cap(self, fraction: float, device: torch.device) -> None:
        assert device == CUDA
        self.cap = fraction
        self.done.append(f"cap {fraction:.4f}")

    def empty_cache(self) -> None:
        self.cached = 0
        self.done.append("empty")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    card = Card()
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", card.set_cap)
    monkeypatch.setattr(torch.cuda, "empty_cache", card.empty_cache)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: card.tensors + card.cached)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=TOTAL)
    )
    return card


def test_learner_memory_is_capped_beside_a_colocated_engine(card: Card) -> None:
    memory = CardMemory(CUDA, ColocatedEngine(memory=0.45))

    with memory.update():
        assert card.cap == CAP

    assert card.done == [f"cap {CAP:.4f}"]


def test_an_update_lifts_the_memory_cap_until_the_engine_wakes(card: Card) -> None:
    memory = CardMemory(CUDA, ColocatedEngine(memory=0.45, sleeps=True))

    with memory.update():
        assert card.cap == 1.0
        card.tensors, card.cached = 40 << 30, 30 << 30

    assert card.done == [f"cap {CAP:.4f}", "cap 1.0000", "empty", f"cap {CAP:.4f}"]
    assert card.cached == 0


def test_a_learner_with_too_much_resident_memory_fails_before_the_engine_wakes(card: Card) -> None:
    memory = CardMemory(CUDA, ColocatedEngine(memory=0.45, sleeps=True))

    text = r"keep 48\.3 GB of the GPU's 85\.9 GB"
    with pytest.raises(TrainingFailure, match=text) as caught, memory.update():
        card.tensors = 45 << 30

    assert (caught.value.code, caught.value.param) == ("out_of_memory", "placement.engine_memory")


def test_an_update_may_use_the_whole_gpu(
    card: Card, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = learner_spec(base, "reinforcement", tmp_path)
    learner = Learner(spec, ProcessGroup(spec.settings.optimizer))
    learner._memory = CardMemory(CUDA, ColocatedEngine(memory=0.45, sleeps=True))
    caps: list[float] = []

    def update(*_: object) -> UpdateResult:
        caps.append(card.cap)
        return UpdateResult({}, None)

    monkeypatch.setattr(Updater, "update", update)
    drawn_batch().save(tmp_path / "batch.npz")
    learner.answer(Update(step=0, batch=tmp_path / "batch.npz"))

    assert caps == [1.0]
    assert card.cap == CAP


@pytest.mark.parametrize(
    ("device", "engine"),
    [(CUDA, None), (torch.device("cpu"), ColocatedEngine(memory=0.45, sleeps=True))],
    ids=["engine elsewhere", "no GPU"],
)
def test_a_learner_on_a_dedicated_gpu_or_a_cpu_is_not_capped(
    device: torch.device, engine: ColocatedEngine | None, card: Card
) -> None:
    with CardMemory(device, engine).update():
        pass

    assert card.done == []
