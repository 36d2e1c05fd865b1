"""Isolation of programs: the tiers, how to choose one, and what it enforces on this machine."""
