"""Which hosts need keys."""

import pytest

from services.common.errors import ConfigurationError
from services.common.web.auth import check_exposure, hash_key, is_loopback

LOOPBACK = ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"]
EXPOSED = ["0.0.0.0", "::", "", "192.168.1.4", "10.0.0.1", "example.org", "localhost.evil.org"]


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_needs_no_keys(host: str) -> None:
    assert is_loopback(host)
    check_exposure(host, [], keyless_allowed=False)


@pytest.mark.parametrize("host", EXPOSED)
def test_every_other_address_needs_keys_or_the_operators_word(host: str) -> None:
    check_exposure(host, [hash_key("k")], keyless_allowed=False)
    check_exposure(host, [], keyless_allowed=True)
    with pytest.raises(ConfigurationError, match="TEMPER_API_KEY_HASHES"):
        check_exposure(host, [], keyless_allowed=False)
