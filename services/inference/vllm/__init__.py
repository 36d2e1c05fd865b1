"""What generates answers: a vLLM server that belongs to one job."""
