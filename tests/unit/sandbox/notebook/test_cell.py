"""A cell stays within its output budget, in texts that every parser accepts."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.sandbox.guest.frames import Header
from services.sandbox.guest.notebook.cell import Cell
from services.sandbox.guest.notebook.messages import (
    MAX_DISPLAYS,
    MAX_TRACEBACK_LENGTH,
    MAX_VALUE_LENGTH,
)

Sent = list[tuple[Header, bytes]]


def cell(sent: Sent, *, stream: int = 100, display: int = 100) -> Cell:
    budget = {"stdout": stream, "stderr": stream, "display": display}
    return Cell(lambda header, body: sent.append((header, body)), "request-1", budget)


def end_of(sent: Sent) -> dict[str, Any]:
    header, _ = sent[-1]
    assert header["type"] == "done"
    return header


@given(pieces=st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary())))
def test_output_arrives_in_order_up_to_its_budget(pieces: list[tuple[str, bytes]]) -> None:
    sent: Sent = []
    running = cell(sent, stream=50)
    for stream, piece in pieces:
        running.printed(stream, piece)
    running.ended()
    for stream in ("stdout", "stderr"):
        written = b"".join(piece for name, piece in pieces if name == stream)
        got = b"".join(body for header, body in sent if header.get("name") == stream)
        assert got == written[:50]
        assert (stream in end_of(sent)["cut"]) == (len(written) > 50)


def test_many_small_pieces_are_few_messages() -> None:
    sent: Sent = []
    running = cell(sent, stream=10_000)
    for _ in range(5000):
        running.printed("stdout", b"x")
    running.ended()
    assert len(sent) < 20


def test_output_before_a_display_is_sent_first() -> None:
    sent: Sent = []
    running = cell(sent)
    running.printed("stdout", b"first")
    running.shown({"text/plain": "second"})
    running.printed("stdout", b"third")
    running.ended()
    assert [body for _, body in sent] == [b"first", b"second", b"third", b""]


def test_a_too_large_representation_does_not_affect_others() -> None:
    sent: Sent = []
    running = cell(sent, display=20)
    running.shown({"image/png": "x" * 100, "text/plain": "<Figure>"})
    running.ended()
    assert sent[0][0]["items"] == [{"type": "text/plain", "json": False, "size": 8}]
    assert end_of(sent)["cut"] == ["display"]


def test_non_text_values_are_sent_as_json() -> None:
    sent: Sent = []
    cell(sent).shown({"application/json": {"a": [1, None]}})
    header, body = sent[0]
    assert header["items"][0]["json"]
    assert json.loads(body) == {"a": [1, None]}


def test_displays_are_bounded() -> None:
    sent: Sent = []
    running = cell(sent, display=1 << 20)
    for number in range(MAX_DISPLAYS + 5):
        running.shown({"text/plain": str(number)})
    running.ended()
    assert len(sent) == MAX_DISPLAYS + 1
    assert end_of(sent)["cut"] == ["display"]


def test_a_dropped_display_does_not_flush_output() -> None:
    sent: Sent = []
    running = cell(sent, stream=1 << 20, display=0)
    for _ in range(1000):
        running.printed("stdout", b"x")
        running.shown({"text/plain": "much"})
    running.ended()
    assert len(sent) < 20


def test_an_early_interrupt_is_delivered_when_the_cell_starts() -> None:
    interrupts: list[str] = []
    running = cell([])
    running.interrupt(lambda: interrupts.append("first"))
    assert interrupts == []
    running.counted(1)
    running.interrupt(lambda: interrupts.append("second"))
    assert interrupts == ["first", "second"]


@given(value=st.text(st.characters(), max_size=20))
def test_lone_surrogates_are_replaced(value: str) -> None:
    sent: Sent = []
    running = cell(sent, display=1000)
    running.shown({"text/\ud800": value + "\ud800", "application/json": [value, "\udfff"]})
    running.failed({"ename": "E\ud800", "evalue": value, "traceback": ["\udc00"]})
    for header, body in sent:
        json.dumps(header, ensure_ascii=False).encode()
        body.decode()


def test_an_endless_error_is_truncated() -> None:
    sent: Sent = []
    running = cell(sent)
    content = {"ename": "E" * 999, "evalue": "v" * (1 << 20), "traceback": ["t" * 100_000] * 50}
    running.failed(content)
    running.ended()
    header = sent[0][0]
    assert len(header["evalue"]) == MAX_VALUE_LENGTH
    assert sum(map(len, header["traceback"])) == MAX_TRACEBACK_LENGTH
    assert not end_of(sent)["ok"]
