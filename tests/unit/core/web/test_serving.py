"""Sockets of a service."""

import socket

import pytest

from services.contracts.errors import ConfigurationError
from services.core.web.serving import Address, bind


def test_a_port_in_use_is_reported_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1, port {port}: "):
            bind(Address("127.0.0.1", port))


def test_an_unknown_host_name_is_reported_in_one_sentence() -> None:
    with pytest.raises(ConfigurationError, match="cannot listen on no such name"):
        bind(Address("no such name", 1))


def test_a_client_that_reads_nothing_is_disconnected_by_the_kernel() -> None:
    (listening,) = bind(Address("127.0.0.1", 0))
    with listening:
        listening.listen()
        with socket.create_connection(listening.getsockname()):
            accepted, _ = listening.accept()
            with accepted:
                milliseconds = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                assert milliseconds > 0
