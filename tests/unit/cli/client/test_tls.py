"""A gateway behind TLS is asked only if its certificate is trusted."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from temper.client import Unreachable
from temper.client.transport import Transport


def self_signed(folder: Path) -> Path:
    """Write the key and the certificate of 127.0.0.1, which no authority has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gateway")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "gateway.pem"
    path.write_bytes(private + certificate.public_bytes(pem))
    return path


class Healthy(BaseHTTPRequestHandler):
    """Answers every GET with 204."""

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        del format, args


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path))
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # refused handshakes
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_untrusted_certificate_is_refused(url: str) -> None:
    transport = Transport(url, api_key=None)
    with closing(transport), pytest.raises(Unreachable, match="self-signed certificate"):
        transport.status_of("/health")
