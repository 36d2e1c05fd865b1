"""Losses and advantages: pure functions of tensors.

Tokens are ragged: a tensor over tokens has shape (m,) and concatenates the trained tokens of all
sequences, without prompts and tool results; ``sequence_of`` (m,) is the sequence of each, from 0.
Log-probabilities, entropies and divergences are in nats.
"""
