"""A scripted LLM: an OpenAI-compatible server with fixed answers.

It proposes the datasets in numeric order and never learns their quality. Its comment on results is
one fixed sentence; the scores decide.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from temper.types import JsonObject

MODEL = "scripted"
LOOPBACK = "127.0.0.1"
MAX_BODY_BYTES = 32 << 20
REQUEST_SECONDS = 30.0

_CODE = """```python
import json, sys
rows = [json.loads(line) for line in open("datasets/{dataset}.jsonl")]
rows = rows[:100] if "--debug" in sys.argv else rows
data = [
    {{"instruction": row["question"], "input": "", "output": row["answer"]}} for row in rows
]
json.dump(data, open("data.json", "w"))
```
```yaml
finetuning_type: full
learning_rate: 0.004
num_train_epochs: 3
per_device_train_batch_size: 32
warmup_ratio: 0.05
cutoff_len: 128
```"""
_TASK = "Train on all rows of dataset"


def reply(messages: Sequence[JsonObject]) -> str:
    """Answer a campaign's conversation, deterministically."""
    first, last = str(messages[1]["content"]), str(messages[-1]["content"])
    if first.startswith("The experiment: "):
        begin = first.index(_TASK) + len(_TASK)
        return _CODE.format(dataset=first[begin:].split(maxsplit=1)[0].rstrip("."))
    if "is judged" in last:
        return json.dumps(
            {"Code Summary": "copies one dataset", "Reason": "scripted: see the scores"}
        )
    earlier_loops = first.count("\nLoop ")
    dataset = f"sums{1 + earlier_loops}"
    if '{"reason"' in last:
        return json.dumps({"reason": "scripted: the model cannot add"})
    if '{"hypothesis"' in last:
        return json.dumps({"hypothesis": f"scripted: {dataset} teaches it to add"})
    return json.dumps({"task": f"{_TASK} {dataset}.", "skip_data_processing": False})


@contextmanager
def scripted_llm() -> Iterator[str]:
    """Serve /v1/chat/completions on loopback until the block ends; yields the origin."""
    server = ThreadingHTTPServer((LOOPBACK, 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self.path != "/v1/chat/completions" or not 0 < length <= MAX_BODY_BYTES:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        messages = json.loads(self.rfile.read(length))["messages"]
        answer = reply(messages)
        prompt_tokens = sum(len(str(message["content"]).split()) for message in messages)
        body: dict[str, Any] = {
            "choices": [
                {"message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
            ],
            "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": len(answer.split())},
        }
        content = json.dumps(body).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Keep requests out of the demo's output."""
