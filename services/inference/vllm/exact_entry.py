"""Starts vLLM's API server on a host without GPU with the arithmetic of the learner."""

from services.inference.vllm import cpu_entry

if __name__ == "__main__":
    from services.inference.exact.engine import compute_exactly

    compute_exactly()
    cpu_entry.serve()
