"""Which headers of a request and of its answer are passed on."""

from collections.abc import Iterable

RawHeaders = list[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade"),
        *(b"transfer-encoding", b"proxy-authenticate", b"proxy-authorization"),
    }
)
# What a client shows the gateway, or what is about the gateway's own name, is for it alone.
FOR_THE_GATEWAY = frozenset(
    {b"authorization", b"cookie", b"host", b"origin", b"referer", b"expect"}
)
# The gateway's server and request ids write their own.
OF_THE_SERVICE = frozenset({b"date", b"server", b"x-request-id", b"set-cookie"})


def passed_on(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """The headers of a request as the service gets them."""
    kept = _without(headers, HOP_BY_HOP | FOR_THE_GATEWAY)
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in kept]


def passed_back(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """The headers of an answer as the client gets them."""
    return _without(headers, HOP_BY_HOP | OF_THE_SERVICE)


def _without(headers: Iterable[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> RawHeaders:
    lowered = [(name.lower(), value) for name, value in headers]
    for name, value in lowered:
        if name == b"connection":  # it may name further headers that are for this hop only
            dropped = dropped | {part.strip().lower() for part in value.split(b",")}
        elif name == b"transfer-encoding":  # what is said of the length beside it does not count
            dropped = dropped | {b"content-length"}
    return [(name, value) for name, value in lowered if name not in dropped]
