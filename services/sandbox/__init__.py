"""Runs code that nobody trusts, and answers what came of it."""
