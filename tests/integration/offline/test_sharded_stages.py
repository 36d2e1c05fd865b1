"""ZeRO over two processes (gloo) gives every stage the losses of two copies."""

import shutil
from pathlib import Path

import pytest

from services.contracts.stages import Stage
from tests.support.offline import OfflineJob


@pytest.mark.long
@pytest.mark.skipif(
    shutil.which("c++") is None, reason="DeepSpeed compiles a part of itself for CPUs, with c++"
)
@pytest.mark.parametrize(
    ("stage", "sharding"),
    [(Stage.SFT, "zero2"), (Stage.DPO, "zero3"), (Stage.KTO, "zero3"), (Stage.PT, "zero2")],
)
def test_a_sharded_stage_has_the_losses_of_copies(
    stage: Stage, sharding: str, base: Path, tmp_path: Path
) -> None:
    arguments = {"logging_steps": 1, "max_steps": 2, "save_strategy": "no"}
    max_seq_len = 33 if stage is Stage.PT else 64
    copied, sharded = (
        OfflineJob(
            tmp_path / name,
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
