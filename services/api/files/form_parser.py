"""The parser of multipart forms, without the cloud clients that it would bring along.

Its package also writes to object stores and loads each client that is installed: for exports,
Temper has some, which would take a quarter of a gateway's memory and of its start.
"""

import sys

_CLIENTS = ("azure", "gcs", "s3", "ssh", "hdfs", "webhdfs", "http", "ftp")

_unwanted = {f"smart_open.{name}" for name in _CLIENTS} - sys.modules.keys()
sys.modules |= dict.fromkeys(_unwanted)  # type: ignore[arg-type]  # None: it cannot be imported
try:
    from streaming_form_data import StreamingFormDataParser
    from streaming_form_data.parser import ParseFailedException
    from streaming_form_data.targets import BaseTarget, ValueTarget
    from streaming_form_data.validators import MaxSizeValidator, ValidationError
finally:
    for _name in _unwanted:
        del sys.modules[_name]

__all__ = [
    "BaseTarget",
    "MaxSizeValidator",
    "ParseFailedException",
    "StreamingFormDataParser",
    "ValidationError",
    "ValueTarget",
]
