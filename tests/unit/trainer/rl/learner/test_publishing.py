"""What a learner writes for its engines, and what it says has changed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from services.trainer.rl.learner.learner import Learner
from services.trainer.rl.learner.parallel import ProcessGroup
from services.trainer.rl.learner.protocol import Publish
from services.trainer.rl.learner.publishing import Publisher
from tests.support.training.learning import drawn_batch, learner_spec
from tests.support.training.updates import update

WEIGHTS = "model.safetensors"


def bits(tensor: Tensor) -> bytes:
    return bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes())


def published(learner: Learner, folder: Path, outdated: Path | None = None) -> set[str] | None:
    changed = learner.answer(Publish(folder=folder, outdated=outdated)).changed
    return None if changed is None else set(changed)


@pytest.fixture(params=[False, True])
def learner(request: pytest.FixtureRequest, base: Path, tmp_path: Path) -> Learner:
    """One that trains all weights, or an adapter that is merged."""
    kind: dict[str, Any] = {"training_type": "lora", "lora": {"rank": 4}} if request.param else {}
    spec = learner_spec(base, "reinforcement", tmp_path, **kind)
    spec = spec.model_copy(update={"publishes_merged": request.param})
    return Learner(spec, ProcessGroup(spec.settings.optimizer))


def test_a_version_over_an_outdated_one_is_what_a_new_one_would_be(
    learner: Learner, tmp_path: Path
) -> None:
    folders = [tmp_path / f"version-{number}" for number in range(4)]
    assert published(learner, folders[0]) is None
    update(learner, tmp_path, drawn_batch(seed=1))
    assert published(learner, folders[1])
    (file,) = folders[0].glob("*.safetensors")
    inode = file.stat().st_ino
    update(learner, tmp_path, drawn_batch(seed=2))

    changed = published(learner, folders[2], folders[0])

    assert not folders[0].exists()
    assert (folders[2] / WEIGHTS).stat().st_ino == inode, "no new file"
    assert published(learner, folders[3]) == set(), "nothing was learned since"
    written, whole, before = (load_file(folders[n] / WEIGHTS) for n in (2, 3, 1))
    assert {name: bits(each) for name, each in written.items()} == {
        name: bits(each) for name, each in whole.items()
    }
    assert changed == {name for name, each in whole.items() if bits(each) != bits(before[name])}
    files = {each.name for each in folders[1].iterdir()}
    assert {each.name for each in folders[2].iterdir()} == files


def test_what_an_adapter_leaves_alone_is_not_published_again(base: Path, tmp_path: Path) -> None:
    kind = {"training_type": "lora", "lora": {"rank": 4, "target_modules": ["q_proj"]}}
    spec = learner_spec(base, "reinforcement", tmp_path, **kind)
    spec = spec.model_copy(update={"publishes_merged": True})
    learner = Learner(spec, ProcessGroup(spec.settings.optimizer))
    published(learner, tmp_path / "0")
    update(learner, tmp_path, drawn_batch(seed=1))

    changed = published(learner, tmp_path / "1")

    names = load_file(tmp_path / "1" / WEIGHTS).keys()
    assert changed == {name for name in names if name.endswith("q_proj.weight")}


class Killed(BaseException):
    """The process ends here."""


def test_a_kill_while_weights_are_written_leaves_no_version(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    def weights(number: float) -> dict[str, Tensor]:
        return {name: torch.full((3, 5), number) for name in ("a.b.weight", "c.d.weight")}

    def publish(number: int, outdated: Path | None = None) -> list[str] | None:
        given = weights(float(number))
        return publisher.publish(
            given, tmp_path / str(number), outdated, lambda path: save_file(given, path / WEIGHTS)
        )

    publisher = Publisher()
    publish(0)
    publish(1)
    rename = Path.rename

    def killed(path: Path, target: Path) -> Path:
        if target == tmp_path / "2":
            raise Killed
        return rename(path, target)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "rename", killed)
        publish(2, tmp_path / "0")

    assert {each.name for each in tmp_path.iterdir()} == {"1", "2.partial"}
    assert all(each.eq(1.0).all() for each in load_file(tmp_path / "1" / WEIGHTS).values())


def test_weights_are_compared_bit_by_bit(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    publisher = Publisher()

    def publish(name: str, *values: float) -> list[str] | None:
        given = {f"{n}.weight": torch.tensor([value]) for n, value in enumerate(values)}
        return publisher.publish(
            given, tmp_path / name, None, lambda path: save_file(given, path / WEIGHTS)
        )

    publish("first", 0.0, float("nan"), 1.0)
    assert publish("second", -0.0, float("nan"), 1.0) == ["0.weight"]


def test_a_model_that_is_stored_in_another_form_is_written_as_a_whole(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    publisher, given = Publisher(), {"fused": torch.ones(2)}

    def write(folder: Path) -> None:
        save_file({"one": torch.ones(1), "two": torch.ones(1)}, folder / WEIGHTS)

    for number in range(2):
        assert publisher.publish(given, tmp_path / str(number), None, write) is None
    assert publisher.publish(given, tmp_path / "2", tmp_path / "0", write) is None
    assert load_file(tmp_path / "2" / WEIGHTS).keys() == {"one", "two"}
    assert not (tmp_path / "0").exists()
