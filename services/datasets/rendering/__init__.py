"""Conversations as the texts and tokens that training reads, and what becomes of their words."""
