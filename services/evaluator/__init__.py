"""The worker of evaluations, rollouts and batches."""
