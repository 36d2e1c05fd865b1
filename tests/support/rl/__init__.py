"""Learners, engines and sources of online training that a test controls."""
