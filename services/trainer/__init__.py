"""The worker of fine-tuning jobs."""
