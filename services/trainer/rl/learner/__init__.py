"""The processes that hold the weights and update them, in the training runtime.

`child` is what is started; `protocol`, `spec` and, one folder up, `sequences` are what it has in
common with the coordinator. Everything else imports torch.

With several processes each reads the same requests and the same batch, computes the same plan, and
takes its share of the micro-batches; what a step needs of the whole batch is known to all before.
"""
