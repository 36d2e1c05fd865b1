"""``python -m examples.demo_3_tool_use retool [--steps N] [--seed N]``, or ``search``."""

import argparse

from examples.demo_3_tool_use.run import run
from examples.demo_3_tool_use.steps import REINFORCEMENT_STEPS
from examples.demo_3_tool_use.tasks import Arithmetic, Facts
from examples.demo_common.program import exit_with

parser = argparse.ArgumentParser(prog="demo_3_tool_use")
parser.add_argument("task", choices=["retool", "search"])
parser.add_argument("--steps", type=int, default=REINFORCEMENT_STEPS, help="updates of the policy")
parser.add_argument("--seed", type=int, default=0)
given = parser.parse_args()
task = Arithmetic() if given.task == "retool" else Facts()
exit_with(lambda home, out: run(task, home, out, given.steps, given.seed))
