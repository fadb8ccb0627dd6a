from __future__ import annotations

import asyncio

import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.demo.deepsearch import searching
from arl_tangram.demo.notes import notes
from arl_tangram.demo.search_api import Index, delay_of
from arl_tangram.executors.api import HttpClient, Request


@pytest.mark.parametrize("note", notes().notes, ids=lambda note: note.title)
def test_the_queries_of_a_note_lead_to_it(note) -> None:
    index = Index(notes().notes)

    assert [note.title] * len(note.queries) == [index.find(q)[0].title for q in note.queries]


def test_one_rare_word_counts_for_more_than_many_common_ones() -> None:
    assert "Compass" == Index(notes().notes).find("is it of the and in a needle")[0].title


def test_nothing_is_found_for_words_that_are_nowhere() -> None:
    assert [] == Index(notes().notes).find("xyzzy")


def test_a_search_takes_as_long_whenever_it_is_made() -> None:
    assert delay_of("tides") == delay_of("tides") != delay_of("bread")


@pytest.mark.slow
def test_more_than_it_allows_is_refused_with_the_seconds_to_stay_away() -> None:
    async def main() -> None:
        async with searching() as address:
            http = HttpClient(secure=False)
            request = Request(url=f"{address}/search", params={"q": "gravity of the Moon"})
            answers = await asyncio.gather(*(http.send(request) for _ in range(40)))
            good = [a for a in answers if a.outcome is Outcome.SUCCEEDED]
            refused = [a for a in answers if a.retry_after_s is not None]
            assert 40 == len(good) + len(refused)
            assert len(refused) > 10
            assert {1.0} == {a.retry_after_s for a in refused}
            assert good[0].response is not None
            assert "Tides" == good[0].response.json()["results"][0]["title"]
            counted = await http.send(Request(url=f"{address}/count"))
            assert counted.response is not None
            expected = {"answered": len(good), "refused": len(refused)}
            assert expected == counted.response.json()
            await http.close()

    asyncio.run(main())
