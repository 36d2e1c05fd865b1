"""Tiny random models of every family of text models that vLLM serves and transformers builds.

`make families` writes what the long tests find into docs/training/families.md.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from services.core.process.runtimes import REPOSITORY, child_environment
from tests.support.runtimes import installed_runtime

pytestmark = pytest.mark.runtime
REGISTRY = "lib/python*/site-packages/vllm/model_executor/models/registry.py"
PARTS = 4
REPRESENTATIVES = ("Gemma2ForCausalLM", "GptOssForCausalLM", "Qwen3NextForCausalLM")
"""Soft-capped logits, experts with attention sinks, and recurrent layers."""
TOLERANCE = 2e-5
SHARE = 0.95
SHARE_ON_CPU = 0.65
"""Of the families that vLLM's kernels for CPUs compute."""
ROUNDING = 1e-3
"""Largest difference of a log-probability in float32."""
PAGE = REPOSITORY / "docs" / "training" / "families.md"


def tried(folder: Path, *options: str) -> list[dict[str, Any]]:
    """The families of a part, each with what became of it."""
    (registry,) = installed_runtime("vllm").python.parents[1].glob(REGISTRY)
    report = folder / "report.json"
    module = ["-W", "ignore", "-m", "tests.support.models.families"]
    subprocess.run(
        [installed_runtime("training").python, *module, registry, report, *options],
        cwd=REPOSITORY,
        env=child_environment({"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}),
        check=True,
        capture_output=True,
        timeout=1500,
    )
    found: list[dict[str, Any]] = json.loads(report.read_bytes())
    return found


def without_engine(folder: Path, found: list[dict[str, Any]]) -> dict[str, str | None]:
    """Why vLLM cannot load its class of each architecture."""
    report = folder / "engine.json"
    names = [each["architecture"] for each in found]
    subprocess.run(
        [
            installed_runtime("vllm").python,
            "-m",
            "tests.support.models.engine_families",
            report,
            *names,
        ],
        cwd=REPOSITORY,
        env=child_environment({}),
        check=True,
        capture_output=True,
        timeout=600,
    )
    problems: dict[str, str | None] = json.loads(report.read_bytes())
    return problems


def served(folder: Path, found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What became of a model of each family in vLLM on a CPU."""
    report = folder / "served.json"
    families = [f"{each['architecture']}={each['model_type']}" for each in found]
    quiet = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}
    # As the platform starts engines without a GPU: in one process, and without a compiler.
    alone = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "TORCHDYNAMO_DISABLE": "1"}
    module = ["-W", "ignore", "-m", "tests.support.models.served_families"]
    subprocess.run(
        [installed_runtime("vllm").python, *module, report, *families],
        cwd=REPOSITORY,
        env=child_environment(quiet | alone | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}),
        check=True,
        capture_output=True,
        timeout=2400,
    )
    answers: dict[str, dict[str, Any]] = json.loads(report.read_bytes())
    return answers


def fails(family: dict[str, Any]) -> bool:
    """Whether a family does not train as transformers computes it."""
    if family["error"]:
        return True
    differences = (family["supervised_difference"], family["online_difference"])
    return any(each > TOLERANCE for each in differences)


@pytest.mark.long
def test_a_served_family_has_the_log_probabilities_of_transformers(tmp_path: Path) -> None:
    asked = {
        "ApertusForCausalLM": "apertus",
        "Ernie4_5_MoeForCausalLM": "ernie4_5_moe",
        "Glm4MoeLiteForCausalLM": "glm4_moe_lite",
        "LagunaForCausalLM": "laguna",
        "Lfm2ForCausalLM": "lfm2",
        "Qwen3MoeForCausalLM": "qwen3_moe",
    }

    answers = served(
        tmp_path, [{"architecture": name, "model_type": kind} for name, kind in asked.items()]
    )

    assert [each["error"] for each in answers.values()] == [None] * len(asked)
    assert max(each["difference"] for each in answers.values()) < ROUNDING


def test_families_of_each_kind_of_layer_train_as_transformers_computes_them(
    tmp_path: Path,
) -> None:
    found = tried(tmp_path, "--only", ",".join(REPRESENTATIVES))

    assert [each["architecture"] for each in found] == sorted(REPRESENTATIVES)
    assert [each for each in found if fails(each)] == []
    assert [each["padded"] is None for each in found] == [True, True, False]


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_nearly_every_family_that_can_be_built_trains(tmp_path: Path) -> None:
    found = sorted(
        (each for part in range(PARTS) for each in tried(tmp_path, "--part", f"{part}/{PARTS}")),
        key=lambda each: each["architecture"],
    )
    problems = without_engine(tmp_path, found)
    for each in found:
        each["engine"] = problems[each["architecture"]]
    answers = served(tmp_path, found)
    for each in found:
        each["served"] = answers[each["architecture"]]
    (tmp_path / "families.json").write_text(json.dumps(found))
    if "TEMPER_WRITE_FAMILIES" in os.environ:
        script = REPOSITORY / "infra" / "docs" / "families.py"
        subprocess.run(
            [sys.executable, script, tmp_path / "families.json"],
            cwd=REPOSITORY,
            check=True,
            timeout=60,
        )

    failed = [each for each in found if fails(each)]
    print(json.dumps(failed, indent=1))

    assert len(found) > 70
    assert 1 - len(failed) / len(found) >= SHARE, failed
    loaded = sum(each is None for each in problems.values())
    assert loaded / len(found) >= SHARE, problems
    answering = sum(each["error"] is None for each in answers.values())
    assert answering / len(found) >= SHARE_ON_CPU, answers
    assert all(f"`{each['architecture']}`" in PAGE.read_text() for each in found)
