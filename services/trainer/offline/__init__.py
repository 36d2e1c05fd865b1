"""Offline training with LLaMA-Factory, as a child process in the training runtime."""
