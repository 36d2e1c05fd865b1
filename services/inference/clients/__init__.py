"""Clients of the services that jobs talk to."""
