"""A vLLM server that belongs to one job."""
