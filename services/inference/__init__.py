"""Generation: vLLM servers, token engines and HTTP clients of model endpoints."""
