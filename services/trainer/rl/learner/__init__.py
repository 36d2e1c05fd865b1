"""The processes that hold the weights and update them, in the training runtime.

`__main__` is the entry point; `client` is the coordinator's side; `protocol` and, one folder up,
`batch` are shared with the coordinator. Everything else imports torch.

With several processes, each reads the same requests and the same batch, computes the same plan, and
processes its share of the micro-batches.
"""
