"""Indexes, encoders and the retrieval service in tests."""
