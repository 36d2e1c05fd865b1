"""``python -m examples.demo_2_evaluation``."""

from examples.demo_2_evaluation.run import run
from examples.demo_common.program import exit_with

exit_with(run)
