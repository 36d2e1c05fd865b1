"""The worker of evaluations and rollouts."""
