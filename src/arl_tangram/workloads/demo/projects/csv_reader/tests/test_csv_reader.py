from __future__ import annotations

import unittest
from random import Random

from csv_reader import CsvError, read, write
from examples import examples


def table(rng: Random, alphabet: str, rows: int = 12, columns: int = 6) -> list[list[str]]:
    def field() -> str:
        return "x" + "".join(rng.choices(alphabet, k=rng.randrange(12)))

    return [[field() for _ in range(columns)] for _ in range(rows)]


class PlainTest(unittest.TestCase):
    def test_no_text_has_no_records(self) -> None:
        self.assertEqual([], read(""))

    def test_records_and_fields(self) -> None:
        self.assertEqual([["a", "b"], ["c", ""]], read("a,b\nc,\n"))

    def test_the_last_line_break_may_be_missing(self) -> None:
        for rng in examples(400):
            text = write(table(rng, "abc de"))
            self.assertEqual(read(text), read(text.removesuffix("\n")))

    def test_both_line_breaks_are_understood(self) -> None:
        for rng in examples(400):
            text = write(table(rng, "abc de"))
            self.assertEqual(read(text), read(text.replace("\n", "\r\n")))

    def test_plain_tables_are_split_at_commas(self) -> None:
        for rng in examples(800):
            rows = table(rng, "abcdefg -_")
            lines = [",".join(row) for row in rows]
            self.assertEqual(rows, read("\n".join(lines)))

    def test_another_delimiter(self) -> None:
        for rng in examples(400):
            rows = table(rng, "ab,c")
            self.assertEqual(rows, read(write(rows, delimiter=";"), delimiter=";"))


class QuotesTest(unittest.TestCase):
    def test_a_comma_in_quotes_is_text(self) -> None:
        self.assertEqual([["a,b", "c"]], read('"a,b",c'))

    def test_a_line_break_in_quotes_is_text(self) -> None:
        self.assertEqual([["a\nb", "c"]], read('"a\nb",c'))

    def test_a_doubled_quote_is_a_quote(self) -> None:
        self.assertEqual([['19" rack', "1"]], read('"19"" rack",1'))

    def test_two_doubled_quotes_are_two_quotes(self) -> None:
        self.assertEqual([['say ""hi""']], read('"say """"hi"""""'))

    def test_an_empty_field_in_quotes(self) -> None:
        self.assertEqual([["", "a"], [""]], read('"",a\n""'))

    def test_only_a_quote(self) -> None:
        self.assertEqual([['"']], read('""""'))

    def test_long_texts_in_quotes(self) -> None:
        for rng in examples(200):
            text = "".join(rng.choices("abc,\n", k=1500))
            self.assertEqual([[text]], read(f'"{text}"'))


class ErrorTest(unittest.TestCase):
    def test_text_after_the_closing_quote(self) -> None:
        with self.assertRaisesRegex(CsvError, "line 2: 'x'"):
            read('a\n"b"x')

    def test_a_quote_in_a_plain_field(self) -> None:
        with self.assertRaisesRegex(CsvError, "line 1: a quote"):
            read('a"b')

    def test_quotes_that_never_close(self) -> None:
        for rng in examples(500):
            text = write(table(rng, "abc"))
            with self.assertRaisesRegex(CsvError, "ends inside"):
                read(text + '"')


class RoundTripTest(unittest.TestCase):
    def test_whatever_is_written_can_be_read(self) -> None:
        for rng in examples(500):
            rows = [['"', "a"], *table(rng, 'ab",\n ')]
            self.assertEqual(rows, read(write(rows)))

    def test_quotes_survive_ten_round_trips(self) -> None:
        for rng in examples(60):
            once = [['"quoted"'], *table(rng, 'a"')]
            rows = once
            for _ in range(10):
                rows = read(write(rows))
            self.assertEqual(once, rows)


if __name__ == "__main__":
    unittest.main()
