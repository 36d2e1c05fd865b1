"""Answers to PANORAMA's questions of patent examination."""
