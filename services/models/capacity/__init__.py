"""The memory of GPUs that a model needs, by its shape and its use."""
