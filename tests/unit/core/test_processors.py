import os
from pathlib import Path

import pytest

from services.core.processors import has_native_bfloat16, usable_cores


@pytest.mark.parametrize(
    ("flags", "native"),
    [
        ("flags\t\t: fpu sse4_2 avx avx2 avx512f", False),
        ("flags\t\t: fpu avx512f avx512_bf16", True),
        ("flags\t\t: amx_bf16 amx_tile", True),
        ("Features\t: fp asimd i8mm bf16", True),
        ("", False),
    ],
)
def test_bfloat16_is_native_where_the_processor_says_so(
    tmp_path: Path, flags: str, native: bool
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\n{flags}\n\nprocessor\t: 1\n{flags}\n")

    assert has_native_bfloat16(cpuinfo) is native
    assert has_native_bfloat16(tmp_path / "missing") is False


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 8), ("150000 100000", 2), ("5000 100000", 1), ("9900000 100000", 8), ("", 8)],
)
def test_cores_are_those_that_the_container_is_granted(
    tmp_path: Path, quota: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    (tmp_path / "cpu.max").write_text(f"{quota}\n")

    assert usable_cores(tmp_path / "cpu.max") == cores
    assert usable_cores(tmp_path / "missing") == 8
