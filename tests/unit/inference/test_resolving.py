"""Names that lead to link-local and metadata addresses are not connected to."""

import asyncio
import json
import socket
from typing import Any

import aiohttp
import pytest

from services.inference.clients.json_service import JsonService
from services.inference.clients.resolving import is_refused
from services.inference.clients.retries import FailureKind, Retries, ServiceFailed


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "169.254.170.2", "169.254.0.1", "fe80::1", "fe80::1%eth0"),
        *("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"),
        *("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    ],
)
def test_metadata_addresses_are_refused_in_every_form(address: str) -> None:
    assert is_refused(address)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.5", "192.168.1.4", "169.253.255.255", "100.100.100.201"),
        *("::1", "fd00::1", "fec0::1", "2001:db8::1", "::ffff:10.0.0.5"),
    ],
)
def test_other_addresses_of_private_networks_may_be_reached(address: str) -> None:
    assert not is_refused(address)


@pytest.mark.parametrize("addresses", [["169.254.169.254"], ["127.0.0.1", "fe80::1"]])
def test_a_name_that_leads_to_metadata_is_not_connected_to(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)

    async def resolve(_: object, host: str, port: int, family: int) -> list[dict[str, Any]]:
        given = {"hostname": host, "port": port, "family": family, "proto": 0, "flags": 0}
        return [{**given, "host": address} for address in addresses]

    monkeypatch.setattr(aiohttp.DefaultResolver, "resolve", resolve)

    async def ask() -> None:
        retries = Retries(3, 60.0, kinds=frozenset(FailureKind))
        service = JsonService("http://model.test", None, timeout=5, retries=retries, connections=1)
        async with service:
            await service.post({}, json.loads)

    with pytest.raises(ServiceFailed, match=r"model\.test leads to .*metadata") as refused:
        asyncio.run(ask())
    assert (refused.value.kind, refused.value.attempts) == (FailureKind.FINAL, 1)


def test_an_address_that_was_allowed_as_such_is_not_resolved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    connected: list[Any] = []

    async def connect(_: object, sock: socket.socket, address: Any) -> None:
        connected.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", connect)

    async def ask() -> None:
        url = "http://169.254.1.2"
        service = JsonService(url, None, timeout=5, retries=Retries(1, 60.0), connections=1)
        async with service:
            await service.post({}, json.loads)

    with pytest.raises(ServiceFailed) as failed:
        asyncio.run(ask())
    assert failed.value.kind is FailureKind.UNSENT
    assert connected == ["169.254.1.2"]
