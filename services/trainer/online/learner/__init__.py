"""The processes that hold the weights and update them, in the training runtime."""
