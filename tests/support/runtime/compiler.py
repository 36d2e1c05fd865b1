"""What tests of DeepSpeed on CPUs need."""

import shutil

import pytest

needs_compiler = pytest.mark.skipif(
    shutil.which("c++") is None, reason="DeepSpeed compiles a part of itself for CPUs, with c++"
)
