"""``python -m examples.demo_1_addition``."""

from examples.demo_1_addition.run import run
from examples.demo_common.program import exit_with

exit_with(run)
