"""Auditing rewards: whether the policy does better, or only scores better."""
