"""Rewards for programs: tests that are run in the sandbox."""
