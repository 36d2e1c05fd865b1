"""A request that is put together from a file and from options, until it is valid."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from services.contracts.validation import first_fault
from temper.submission.assignments import InvalidOption, Part, assign, dotted, parse_path
from temper.submission.submission import SubmissionError

RequestT = TypeVar("RequestT", bound=BaseModel)


@dataclass
class Draft:
    """The body of a request, and where its fields come from.

    ``file`` with its ``text`` is the job file, if there is one; ``options`` has the option that
    set a path of the body, above the file.
    """

    body: dict[str, Any] = field(default_factory=dict)
    file: Path | None = None
    text: str = ""
    notes: tuple[str, ...] = ()
    options: dict[tuple[Part, ...], str] = field(default_factory=dict)
    offered: dict[tuple[Part, ...], str] = field(default_factory=dict)
    """The options that could set fields, which errors of missing fields name."""

    def set(self, path: str | Sequence[Part], value: Any, option: str) -> None:
        """Set what an option says; raises `InvalidOption`."""
        parts = parse_path(path) if isinstance(path, str) else tuple(path)
        try:
            assign(self.body, parts, value)
        except InvalidOption as error:
            raise InvalidOption(f"{option}: {error.message}") from error
        self.options[parts] = option

    def default(self, path: str, value: Any) -> None:
        """Set what neither file nor options say; None is nothing."""
        if value is not None and self.get(path) is None:
            assign(self.body, parse_path(path), value)

    def get(self, path: str) -> Any:
        """What is at a path; None: nothing."""
        place: Any = self.body
        for part in parse_path(path):
            if isinstance(place, list) and isinstance(part, int) and part < len(place):
                place = place[part]
            elif isinstance(place, dict):
                place = place.get(str(part))
            else:
                return None
        return place

    def option_of(self, location: Sequence[Part]) -> str | None:
        """The option that set a field, or what the field is a part of; the last one wins."""
        texts = [str(part) for part in location]
        own = (
            option
            for path, option in reversed(self.options.items())
            if [str(part) for part in path] == texts[: len(path)]
        )
        return next(own, None)

    def folder_of(self, location: Sequence[Part]) -> Path:
        """The folder to which a local path in a field is relative."""
        if self.file is None or self.option_of(location) is not None:
            return Path()
        return self.file.parent

    def request(self, model: type[RequestT], known: Collection[str] | None = None) -> RequestT:
        """Return the request.

        ``known``: the fields that may be given, where these are not all of the model. Raises
        `InvalidOption` or `SubmissionError` with the field, and the option or the line of the file
        that set it.
        """
        for name in self.body:
            if known is not None and name not in known:
                raise self.fault((name,), f"unknown; known are {', '.join(sorted(known))}")
        try:
            return model.model_validate(self.body)
        except ValidationError as error:
            fault = first_fault(error)
            raise self.fault(fault.location, fault.message) from error

    def fault(self, location: Sequence[Part], message: str) -> SubmissionError:
        """The error of a field, which names where it was given."""
        name = ".".join(map(str, location))
        said = f"{name}: {message}" if name else message
        option = self.option_of(location)
        if option is not None:
            return InvalidOption(f"{option}: {said}")
        if self.file is None:
            offered = self.offered.get(tuple(location))
            return InvalidOption(f"{offered}: {said}" if offered else said)
        from temper.submission.field_lines import line_of  # reads YAML, which errors alone need

        line = line_of(self.text, location)
        where = str(self.file) if line is None else f"{self.file}, line {line}"
        return SubmissionError(f"{where}: {said}")


def set_option(path: Sequence[Part]) -> str:
    """How a ``--set`` is named in errors."""
    return f"--set {dotted(path)}"
