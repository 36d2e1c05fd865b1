"""ZeRO over two processes (gloo) gives every stage the losses of two copies."""

import json
from pathlib import Path

import pytest

from services.contracts.llamafactory.names import Stage
from tests.support.runtime.compiler import needs_compiler
from tests.support.training.offline import OfflineJob, rows_of


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize(
    ("stage", "sharding"),
    [(Stage.SFT, "zero2"), (Stage.DPO, "zero3"), (Stage.KTO, "zero3"), (Stage.PT, "zero2")],
)
def test_a_sharded_stage_has_the_losses_of_copies(
    stage: Stage, sharding: str, base: Path, tmp_path: Path
) -> None:
    compare_with_copies(stage, sharding, base, tmp_path)


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize(
    ("stage", "sharding"), [(Stage.SFT, "zero2_offload"), (Stage.DPO, "zero3_offload")]
)
def test_optimizers_and_weights_on_the_host_change_no_losses(
    stage: Stage, sharding: str, base: Path, tmp_path: Path
) -> None:
    compare_with_copies(stage, sharding, base, tmp_path)


def compare_with_copies(stage: Stage, sharding: str, base: Path, folder: Path) -> None:
    """Train two steps in two processes, sharded and with a copy each."""
    arguments = {"logging_steps": 1, "max_steps": 2, "save_strategy": "no"}
    max_seq_len = 33 if stage is Stage.PT else 64
    copied, sharded = (
        OfflineJob(
            folder / name,
            base,
            stage,
            batch_size=4,
            arguments=arguments,
            max_seq_len=max_seq_len,
            **changes,
        )
        for name, changes in (("copied", {}), ("sharded", {"sharding": sharding}))
    )

    results = [job.run_in_processes(2) for job in (copied, sharded)]

    assert [result["status"] for result in results] == ["succeeded"] * 2, results
    assert len(copied.losses()) == 2
    assert sharded.losses() == pytest.approx(copied.losses(), abs=2e-3)


@pytest.mark.long
@needs_compiler
def test_the_best_checkpoint_of_a_sharded_training_is_loaded_at_its_end(
    base: Path, tmp_path: Path
) -> None:
    validation = tmp_path / "validation.jsonl"
    validation.write_text("".join(json.dumps(row) + "\n" for row in rows_of(Stage.SFT, 4)))
    every_step = {"max_steps": 4, "eval_steps": 1, "save_steps": 1, "logging_steps": 1}
    job = OfflineJob(
        tmp_path / "job",
        base,
        Stage.SFT,
        sharding="zero2",
        validation_data={"path": str(validation)},
        learning_rate=0.3,  # so that it gets worse
        arguments=every_step | {"load_best_model_at_end": True, "lr_scheduler_type": "constant"},
    )

    result = job.run_in_processes(2)

    losses = [entry["eval_loss"] for entry in job.metrics() if "eval_loss" in entry]
    assert result["status"] == "succeeded", result
    assert min(losses) != losses[3]
    # The last evaluation is of the best checkpoint, after the training.
    assert losses[4] == pytest.approx(min(losses), abs=1e-3)
