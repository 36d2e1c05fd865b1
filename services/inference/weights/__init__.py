"""How the policy's engine gets new weights, in the processes of vLLM that hold a model."""
