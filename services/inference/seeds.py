"""Seeds of requests, derived from the seed of a job.

An engine draws the noise of a request from its seed alone. Requests with equal seeds have equal
noise at equal positions whatever they ask, so their answers err together, and the standard error
of a mean over them is wrong: each needs a seed of its own.
"""

import hashlib

SEEDS = 2**31
"""Seeds below this are taken by every server; vLLM takes 64 bits."""


def derived_seed(seed: int | str, *place: int | str) -> int:
    """A 32-bit seed of what stands at ``place``, such as a row and the number of a sample.

    It depends on nothing else: another model, another order of requests, and another attempt at
    them have the same one, so that compared models have common random numbers.
    """
    text = "/".join(map(str, (seed, *place)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest())
