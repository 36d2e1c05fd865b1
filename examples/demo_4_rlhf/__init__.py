"""Reinforcement learning from human feedback, the classical way, on short replies."""
