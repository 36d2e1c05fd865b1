"""What an allow-list permits, in every notation, and what it never does."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.addresses import is_public, plain
from services.sandbox.network.destinations import AllowList, Destination

_LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(_LABELS, min_size=1, max_size=4).map(".".join)
PORTS = st.integers(1, 65535)
ADDRESSES = st.ip_addresses()


def listed(entry: str, asked: str) -> bool:
    return AllowList([entry]).allows(Destination.parse(asked))


def written(address: IPv4Address | IPv6Address) -> str:
    return f"[{address}]" if isinstance(address, IPv6Address) else str(address)


@given(NAMES, PORTS, st.data())
def test_case_and_trailing_dot_are_ignored(name: str, port: int, data: st.DataObject) -> None:
    upper = data.draw(st.lists(st.booleans(), min_size=len(name), max_size=len(name)))
    other = "".join(c.upper() if up else c for c, up in zip(name, upper, strict=True))

    assert listed(f"{name}:{port}", f"{other}:{port}")
    assert listed(f"{other}.:{port}", f"{name}:{port}")
    assert listed(f"{other}:{port}", f"{name}.:{port}")


@given(NAMES, PORTS, PORTS)
def test_an_entry_opens_one_port_only(name: str, port: int, asked: int) -> None:
    assert listed(f"{name}:{port}", f"{name}:{asked}") == (port == asked)
    assert listed(f"*.{name}:{port}", f"a.{name}:{asked}") == (port == asked)


@given(NAMES, NAMES, PORTS)
def test_a_name_entry_opens_no_other_name(name: str, asked: str, port: int) -> None:
    assert listed(f"{name}:{port}", f"{asked}:{port}") == (name == asked)


@given(NAMES, NAMES, PORTS)
def test_a_domain_entry_opens_subdomains_only(domain: str, other: str, port: int) -> None:
    assert listed(f"*.{domain}:{port}", f"{other}.{domain}:{port}")
    assert not listed(f"*.{domain}:{port}", f"{domain}:{port}")
    assert not listed(f"*.{domain}:{port}", f"x{domain}:{port}")
    assert listed(f"*.{domain}:{port}", f"{other}:{port}") == other.endswith(f".{domain}")


@given(ADDRESSES, ADDRESSES, PORTS)
def test_an_address_entry_matches_every_notation_of_itself_only(
    address: IPv4Address | IPv6Address, other: IPv4Address | IPv6Address, port: int
) -> None:
    entry = f"{written(address)}:{port}"

    assert listed(entry, f"{written(other)}:{port}") == (plain(address) == plain(other))
    if isinstance(address, IPv6Address):
        assert listed(entry, f"[{address.exploded.upper()}]:{port}")
    else:
        assert listed(entry, f"[::ffff:{address}]:{port}")
        assert listed(f"[::ffff:{address}]:{port}", entry)


@given(NAMES | ADDRESSES.map(written), PORTS)
def test_destinations_round_trip_through_text(host: str, port: int) -> None:
    destination = Destination.parse(f"{host}:{port}")

    assert Destination.parse(str(destination)) == destination


@given(st.text())
def test_any_text_is_a_destination_or_rejected(text: str) -> None:
    try:
        destination = Destination.parse(text)
    except ValueError:
        return
    assert 0 < destination.port < 65536
    assert str(destination).isascii()
    assert str(destination).isprintable()


@pytest.mark.parametrize(
    ("entry", "asked"),
    [
        ("bücher.example:443", "xn--bcher-kva.example:443"),
        ("BÜCHER.example.:443", "XN--BCHER-KVA.example:443"),
        ("*.bücher.example:443", "shop.xn--bcher-kva.example:443"),
        ("例え。テスト:80", "xn--r8jz45g.xn--zckzah:80"),
        ("_service.example:80", "_service.example:80"),
    ],
)
def test_international_names_are_listed_in_unicode(entry: str, asked: str) -> None:
    assert listed(entry, asked)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ":",
            "host",
            "host:",
            ":80",
            "host:0",
            "host:65536",
            "host:99999999",
            "host:²",
            "h:-1",
        ),
        *(
            "a..b:80",
            ".a:80",
            "-a:80",
            "a-:80",
            "a b:80",
            "a/b:80",
            "user@a:80",
            "a%00:80",
            "a\n:80",
        ),
        *("a:80:80", "::1:80", "2001:db8::1:443", "[::1:80", "[a]:80", "[127.0.0.1]:80"),
        *("[fe80::1%eth0]:80", "fe80::1%eth0:80", f"{'a' * 64}:80", f"{'a.' * 127}a:80"),
        *("2130706433:80", "127.1:80", "0x7f.1:80", "0x7f000001:80", "010.0.0.01:80", "a.1:80"),
        *("\uff11\uff12\uff17.0.0.1:80", "*:80", "*.:80", "a.*.b:80", "*a.b:80"),
    ],
)
def test_invalid_destinations_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        AllowList([text])


@pytest.mark.parametrize("text", ["*.127.0.0.1:80", "*.[::1]:80"])
def test_an_address_cannot_be_a_wildcard(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        AllowList([text])


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
        *(
            "169.254.169.254",
            "100.64.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "224.0.0.1",
            "239.255.255.250",
        ),
        *("240.0.0.1", "255.255.255.255"),
        *("::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "ff0e::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:0", "::127.0.0.1", "::10.0.0.1"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2002:7f00:1::", "2001::1"),
        *("2002:a9fe:a9fe::1", "2001:db8::1", "100::1"),
    ],
)
def test_names_never_resolve_to_private_addresses(address: str) -> None:
    allow = AllowList(["name.example:80"])

    assert not allow.leads_to(ip_address(address), 80)
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_a_name_reaches_public_addresses(address: str) -> None:
    assert AllowList(["name.example:80"]).leads_to(ip_address(address), 80)


@given(ADDRESSES, PORTS, PORTS)
def test_a_listed_address_is_open_on_its_port(
    address: IPv4Address | IPv6Address, port: int, other: int
) -> None:
    allow = AllowList([f"{written(address)}:{port}"])

    assert allow.leads_to(address, port)
    assert allow.leads_to(address, other) == (port == other or is_public(address))


@given(st.ip_addresses(v=4))
def test_ipv4_and_its_ipv6_forms_are_classified_alike(address: IPv4Address) -> None:
    number = int(address)
    forms = (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80)

    assert {is_public(IPv6Address(form)) for form in forms} == {is_public(address)}
