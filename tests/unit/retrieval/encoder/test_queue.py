"""The batches that the encoder's threads take from the queue."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.encoder.child import queue as queue_module
from services.retrieval.encoder.child.queue import Array, EncoderTask, TaskQueue
from services.retrieval.encoder.errors import EncoderBusy, EncoderTimeout
from services.retrieval.encoder.protocol import Operation
from services.retrieval.encoder.specification import TextKind

Outcome = tuple[Array | None, Exception | None]


def task(
    texts: list[str],
    kind: TextKind = TextKind.QUERY,
    *,
    operation: Operation = Operation.ENCODE,
    seconds: float = 60.0,
    finished: Callable[[Array | None, Exception | None], None] = lambda *_: None,
) -> EncoderTask:
    return EncoderTask(operation, kind, texts, time.monotonic() + seconds, finished)


def waiting(*tasks: EncoderTask) -> TaskQueue:
    queue = TaskQueue(1000)
    for each in tasks:
        queue.add(each)
    return queue


def taken(queue: TaskQueue, *, scores_alone: bool = False) -> list[str]:
    pieces = queue.take(scores_alone=scores_alone)
    return [text for piece in pieces for text in piece.texts]


def test_waiting_tasks_are_batched() -> None:
    assert taken(waiting(task(["a"]), task(["b", "c"]), task(["d"]))) == ["a", "b", "c", "d"]


def test_queries_have_priority() -> None:
    queue = waiting(task(["passage"], TextKind.PASSAGE), task(["query"]))

    assert taken(queue) == ["query", "passage"]


def test_passages_do_not_starve() -> None:
    queue = waiting(task(["passage"], TextKind.PASSAGE))
    long = "q" * 1000

    for _ in range(2 * queue_module.PASSAGE_INTERVAL):
        queue.add(task([long] * 100))
        if "passage" in taken(queue):
            return
    raise AssertionError("queries always went first")


@given(st.lists(st.lists(st.integers(0, 20_000), min_size=1, max_size=60), max_size=8))
def test_every_text_is_taken_once_in_bounded_batches(sizes: list[list[int]]) -> None:
    tasks = [
        task([f"{index}.{n}".ljust(size, "x") for n, size in enumerate(lengths)])
        for index, lengths in enumerate(sizes)
    ]
    queue = waiting(*tasks)
    left = [text for each in tasks for text in each.texts]

    while left:
        share = taken(queue)
        assert share == left[: len(share)]
        assert sum(min(len(text), 1000) for text in share[:-1]) <= queue_module.BATCH_CHARACTERS
        left = left[len(share) :]


def test_expired_tasks_fail_without_being_computed() -> None:
    outcomes: list[Outcome] = []
    late = task(["late"], seconds=-1, finished=lambda *outcome: outcomes.append(outcome))

    assert taken(waiting(late, task(["in time"]))) == ["in time"]
    assert isinstance(outcomes[0][1], EncoderTimeout)


def test_dropped_tasks_are_not_computed() -> None:
    dropped = task(["dropped"])
    queue = waiting(dropped, task(["wanted"]))

    dropped.drop()

    assert taken(queue) == ["wanted"]


def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "MAX_WAITING", 3)
    queue = waiting(task(["a", "b"]))

    with pytest.raises(EncoderBusy):
        queue.add(task(["c", "d"]))
    taken(queue)
    queue.add(task(["c", "d"]))

    assert taken(queue) == ["c", "d"]


def test_a_reranker_gets_one_request_at_a_time() -> None:
    scored = task(["query", "p1", "p2"], TextKind.PASSAGE, operation=Operation.SCORE)
    queue = waiting(task(["a"]), scored, task(["b"]))

    shares = [taken(queue, scores_alone=True) for _ in range(2)]

    assert shares == [["a", "b"], ["query", "p1", "p2"]]


def test_results_are_assembled_from_pieces() -> None:
    outcomes: list[Outcome] = []
    whole = task(["a", "b", "c"], finished=lambda *outcome: outcomes.append(outcome))

    whole.put(2, np.full((1, 2), 3, np.float32))
    assert outcomes == []
    whole.put(0, np.ones((2, 2), np.float32))

    assert outcomes[0][0] is not None
    assert outcomes[0][0].tolist() == [[1, 1], [1, 1], [3, 3]]


def test_a_task_finishes_once() -> None:
    outcomes: list[Outcome] = []
    ended = task(["a"], finished=lambda *outcome: outcomes.append(outcome))

    ended.fail(EncoderTimeout("late"))
    ended.put(0, np.ones((1, 2), np.float32))
    ended.drop()

    assert len(outcomes) == 1
