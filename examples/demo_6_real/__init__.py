"""A published instruction model that learns to call a calculator, by fine-tuning and then by RL."""
