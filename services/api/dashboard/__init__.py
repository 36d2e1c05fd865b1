"""The dashboard: web pages that show what the REST routes answer."""
