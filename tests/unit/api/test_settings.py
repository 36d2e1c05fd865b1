"""Gateway settings read from the environment."""

import pytest
from pydantic import ValidationError

from services.api.settings import ApiSettings
from services.core.web.auth import hash_key

HASH = hash_key("temper-key")


def test_key_hashes_are_split_and_lowercased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", f" {HASH.upper()} ,, {hash_key('b')}")

    assert ApiSettings().api_key_hashes == [HASH, hash_key("b")]


@pytest.mark.parametrize("value", ["temper-key", HASH[:-1], HASH + "0", "g" * 64, f"{HASH},x"])
def test_a_plain_key_instead_of_its_hash_is_rejected_without_echoing_it(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", value)

    with pytest.raises(ValidationError) as caught:
        ApiSettings()

    assert value not in str(caught.value)


def test_key_hashes_are_not_in_the_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", HASH)

    assert HASH not in repr(ApiSettings())
