"""Detecting an engine that missed an update, in spite of rounding differences."""

import numpy as np
import pytest

from services.trainer.rl.weight_sync import missed_update

TOKENS = 3000


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rounding", [0.0, 0.02])
def test_stale_engine_is_distinguished_from_a_current_one(seed: int, rounding: float) -> None:
    generator = np.random.default_rng(seed)
    update = generator.normal(0.0, 0.005, TOKENS)
    noise = generator.normal(0.0, rounding, TOKENS)
    assert missed_update(noise, update)
    assert not missed_update(update + noise, update)


@pytest.mark.parametrize("seed", range(20))
def test_update_too_small_to_see_is_not_called_missed(seed: int) -> None:
    generator = np.random.default_rng(seed)
    update = generator.normal(0.0, 0.0005, TOKENS)
    noise = generator.normal(0.0, 0.02, TOKENS)
    assert not missed_update(noise, update)
    assert not missed_update(update + noise, update)
    assert not missed_update(np.zeros(TOKENS), np.zeros(TOKENS))
