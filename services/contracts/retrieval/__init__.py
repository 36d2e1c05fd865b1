"""Retrieval: searches, documents and indexes."""
