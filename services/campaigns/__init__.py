"""The campaign worker: in each loop an LLM proposes a fine-tune, and measurements decide.

``loop`` is the whole campaign as a program that restarts at every wake-up. ``steps`` holds what it
does in each loop; ``run``, what a step may use: effects performed once, the budget, the turn of
concurrent loops. ``llm`` asks the LLM, ``scripts`` runs what it writes, ``data`` reads the
benchmark. ``worker`` claims campaigns; ``gateway`` creates their jobs.
"""
