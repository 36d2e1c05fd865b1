"""The dashboard: web pages over the REST API."""
