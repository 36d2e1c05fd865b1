"""Configuring uv with the settings of pip."""

from infra.runtimes.installer.uv import REQUIREMENT, translate
from tests.support.processes import REPOSITORY

LISTED = """\
:env:.find-links='/opt/wheels'
:env:.default-timeout='180'
global.cert='/etc/ssl/certs/ca.crt'
global.extra-index-url='https://a.example/simple https://b.example/simple'
global.find-links='/elsewhere'
global.index-url='https://mirror.example/simple'
install.trusted-host='mirror.example'
global.no-index='false'
"""


def test_uv_uses_pips_indexes() -> None:
    options, variables = translate(LISTED, {})

    given = list(zip(options[::2], options[1::2], strict=True))
    assert sorted(given) == [
        ("--allow-insecure-host", "mirror.example"),
        ("--default-index", "https://mirror.example/simple"),
        ("--find-links", "/opt/wheels"),
        ("--index", "https://a.example/simple"),
        ("--index", "https://b.example/simple"),
    ]
    assert variables == {"SSL_CERT_FILE": "/etc/ssl/certs/ca.crt", "UV_HTTP_TIMEOUT": "180"}


def test_uv_variables_override_pip_settings() -> None:
    _, variables = translate(LISTED, {"UV_HTTP_TIMEOUT": "5"})

    assert variables == {"SSL_CERT_FILE": "/etc/ssl/certs/ca.crt"}


def test_no_index_is_passed_on() -> None:
    assert translate(":env:.no-index='1'\n", {}) == (["--no-index"], {})


def test_the_pinned_uv_matches_the_development_tools() -> None:
    lock = REPOSITORY / "infra" / "requirements" / "dev.txt"

    assert REQUIREMENT in lock.read_text().splitlines()
