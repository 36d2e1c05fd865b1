"""``python -m examples.demo_6_real [--steps N] [--seed N]``."""

import argparse

from examples.demo_6_real.run import run
from examples.demo_6_real.steps import REINFORCEMENT_STEPS
from examples.demo_common.program import exit_with

parser = argparse.ArgumentParser(prog="demo_6_real")
parser.add_argument("--steps", type=int, default=REINFORCEMENT_STEPS, help="updates of the policy")
parser.add_argument("--seed", type=int, default=0)
given = parser.parse_args()
exit_with(lambda home, out: run(home, out, given.steps, given.seed))
