"""Campaigns in tests: their gateway, records, and the LLM that a script plays."""
