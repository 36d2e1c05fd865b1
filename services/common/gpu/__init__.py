"""Devices: what a host has, and who holds it."""
