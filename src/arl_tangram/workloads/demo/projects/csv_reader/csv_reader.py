"""Reads and writes comma-separated values: a state machine that sees each character once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

START, PLAIN, QUOTED, CLOSING = "start", "plain", "quoted", "closing"


class CsvError(ValueError):
    """The text is not comma-separated values; the message says where."""


def read(text: str, delimiter: str = ",") -> list[list[str]]:
    """The records of a text, each a list of fields."""
    records: list[list[str]] = []
    record: list[str] = []
    field: list[str] = []
    state, line = START, 1

    def end_field() -> None:
        record.append("".join(field))
        field.clear()

    def end_record() -> None:
        end_field()
        records.append(record.copy())
        record.clear()

    for char in text.replace("\r\n", "\n"):
        if char == "\n":
            line += 1
        if state == QUOTED:
            if char == '"':
                state = CLOSING
            else:
                field.append(char)
        elif char == delimiter:
            end_field()
            state = START
        elif char == "\n":
            end_record()
            state = START
        elif state == CLOSING:
            if char != '"':
                raise CsvError(f"line {line}: {char!r} after the closing quote")
            state = QUOTED
        elif char == '"':
            if state == PLAIN:
                raise CsvError(f"line {line}: a quote inside a field without quotes")
            state = QUOTED
        else:
            field.append(char)
            state = PLAIN
    if state == QUOTED:
        raise CsvError(f"line {line}: the text ends inside quotes")
    if record or field or state == CLOSING:
        end_record()
    return records


def write(records: Iterable[Sequence[str]], delimiter: str = ",") -> str:
    """The text of the records; fields are quoted only where they must be."""
    return "".join(
        delimiter.join(_quoted(field, delimiter) for field in record) + "\n" for record in records
    )


def _quoted(field: str, delimiter: str) -> str:
    if any(char in field for char in (delimiter, '"', "\n", "\r")):
        return '"' + field.replace('"', '""') + '"'
    return field
