"""The worker of evaluation jobs."""
