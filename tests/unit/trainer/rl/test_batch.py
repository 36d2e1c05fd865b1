from pathlib import Path

import numpy as np
import pytest

from services.contracts.rollouts.trajectories import FinishReason
from services.rollouts.log.log import read_indexed
from services.rollouts.log.updates import find_update
from services.trainer.rl.batch import TrainingBatch
from services.trainer.rl.groups import overlong_penalty
from tests.support.rl.parts import SteadyEngine
from tests.support.rl.training import Run, method, questions
from tests.support.rl.virtual import run
from tests.support.rollouts import END_TEXT
from tests.support.training.learning import drawn_batch, in_branches


@pytest.mark.parametrize("top_k", [None, 3])
def test_batch_round_trip(top_k: int | None, tmp_path: Path) -> None:
    batch = in_branches(drawn_batch(top_k=top_k)) if top_k is None else drawn_batch(top_k=top_k)
    batch.save(tmp_path / "batch.npz")
    read = TrainingBatch.load(tmp_path / "batch.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["batch.npz"]
    for one, two in zip(batch.sequences, read.sequences, strict=True):
        for name in ("token_ids", "mask", "sampler_log_probs", "policy_versions"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        assert (one.reward, one.group, one.sample) == (two.reward, two.group, two.sample)
        if one.teacher is not None:
            assert two.teacher is not None
            np.testing.assert_array_equal(one.teacher.ids, two.teacher.ids)
            np.testing.assert_array_equal(one.teacher.log_probs, two.teacher.log_probs)


def test_batch_of_another_format_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "batch.npz", "wb") as file:
        np.savez(file, format=np.int64(99))
    with pytest.raises(ValueError, match="format 99"):
        TrainingBatch.load(tmp_path / "batch.npz")


@pytest.mark.parametrize(
    ("length", "penalty"),
    [(100, 0.0), (1536, 0.0), (1537, -0.001953125), (1792, -0.5), (2048, -1.0), (4000, -1.0)],
)
def test_overlong_penalty_is_piecewise_linear(length: int, penalty: float) -> None:
    assert overlong_penalty(length, 2048, 512) == penalty
    assert overlong_penalty(length, 2048, 512, factor=2.0) == 2 * penalty


def test_what_a_mask_leaves_out_is_not_logged_as_trained_on(tmp_path: Path) -> None:
    engine = SteadyEngine(lambda text: "x" * 80 if "q1" in text else f"ok{END_TEXT}")
    run(Run(tmp_path, method(mask_truncated=True), engine, questions(5)).play())

    reasons = set()
    for trajectory in read_indexed(tmp_path):
        is_cut = trajectory.finish_reason is FinishReason.LENGTH
        assert (find_update(tmp_path, trajectory.id) is None) is is_cut
        reasons.add(trajectory.finish_reason)
    assert reasons == {FinishReason.LENGTH, FinishReason.ANSWERED}
