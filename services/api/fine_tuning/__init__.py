"""Fine-tuning jobs over REST."""
