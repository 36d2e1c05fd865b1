"""Settings of the gateway as they are read from the environment."""

import pytest
from pydantic import ValidationError

from services.api.settings import ApiSettings
from services.core.web.auth import hash_key

HASH = hash_key("temper-key")


def test_key_hashes_are_a_list_in_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", f" {HASH.upper()} ,, {hash_key('b')}")

    assert ApiSettings().api_key_hashes == [HASH, hash_key("b")]


@pytest.mark.parametrize("value", ["temper-key", HASH[:-1], HASH + "0", "g" * 64, f"{HASH},x"])
def test_a_key_in_place_of_its_hash_is_refused_without_repeating_it(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", value)

    with pytest.raises(ValidationError) as caught:
        ApiSettings()

    assert value not in str(caught.value)


def test_hashes_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", HASH)

    assert HASH not in repr(ApiSettings())
