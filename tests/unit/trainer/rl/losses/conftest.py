from tests.support.runtime.runtime_tests import pytest_pycollect_makemodule

__all__ = ["pytest_pycollect_makemodule"]
