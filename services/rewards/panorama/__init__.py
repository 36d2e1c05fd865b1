"""Grades answers to PANORAMA's questions of patent examination."""
