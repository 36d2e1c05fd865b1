"""``python -m examples.demo_4_rlhf [--steps N] [--seed N] [--gamed]``."""

import argparse

from examples.demo_4_rlhf.run import run
from examples.demo_4_rlhf.steps import PPO_STEPS
from examples.demo_common.program import exit_with

parser = argparse.ArgumentParser(prog="demo_4_rlhf")
parser.add_argument("--steps", type=int, default=PPO_STEPS, help="updates of the policy")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--gamed", action="store_true", help="make the reward easy to game")
given = parser.parse_args()
exit_with(lambda home, out: run(home, out, given.steps, given.seed, gamed=given.gamed))
