"""What people write for durations, sizes and cores, and what they are told when it is wrong."""

from __future__ import annotations

from datetime import timedelta

import pytest

from arl_tangram.errors import InvalidAction
from arl_tangram.runtime.units import cpu_request, owned_milli, seconds, size_bytes, size_mib


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (2, 2.0),
        (0.25, 0.25),
        ("30", 30.0),
        ("250ms", 0.25),
        ("30m", 1800.0),
        ("1h30m", 5400.0),
        ("1d", 86400.0),
        (timedelta(minutes=2), 120.0),
    ],
)
def test_a_duration_is_seconds_or_text_with_units(written: object, meant: float) -> None:
    assert meant == seconds(written, "timeout")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (1, 1),
        ("100", 100),
        ("1k", 1024),
        ("1kB", 1000),
        ("512MiB", 512 << 20),
        ("1.5 GiB", 3 << 29),
        ("2GB", 2 * 10**9),
    ],
)
def test_a_size_is_bytes_or_text_with_units(written: object, meant: int) -> None:
    assert meant == size_bytes(written, "memory")  # type: ignore[arg-type]


def test_memory_is_rounded_up_to_whole_mib() -> None:
    assert 2 == size_mib((1 << 20) + 1, "memory")


def test_a_memory_limit_in_mere_bytes_is_taken_for_a_mistake() -> None:
    with pytest.raises(InvalidAction, match=r"^memory=512: 512 bytes hold no program"):
        size_mib(512, "memory")


@pytest.mark.parametrize("written", ["", "soon", "10x", "1h 30", -1, 0, float("nan"), None, True])
def test_a_wrong_duration_is_refused_with_field_value_and_remedy(written: object) -> None:
    with pytest.raises(InvalidAction, match=r"^timeout=.*: (give|a time limit)"):
        seconds(written, "timeout")  # type: ignore[arg-type]


@pytest.mark.parametrize("written", ["", "much", "1XB", -1, 0, 0.5, None])
def test_a_wrong_size_is_refused_with_field_value_and_remedy(written: object) -> None:
    with pytest.raises(InvalidAction, match=r"^memory=.*: (give|a size)"):
        size_bytes(written, "memory")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "milli"), [(1, 1000), (0.25, 250), ("2", 2000), ((3, 3), 3000), ([4], 4000)]
)
def test_one_amount_of_cores_is_rigid(written: object, milli: int) -> None:
    assert (milli, None) == cpu_request(written)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "units"),
    [
        ((1, 4), (1, 2, 3, 4)),
        ("2:4", (2, 3, 4)),
        ([1, 2, 8], (1, 2, 8)),
        ([8, 2, 2], (2, 8)),
        ("1,4", (1, 4)),
    ],
)
def test_a_range_or_a_list_of_cores_is_elastic(written: object, units: tuple[int, ...]) -> None:
    milli, elastic = cpu_request(written)  # type: ignore[arg-type]

    assert elastic is not None
    assert (0, units) == (milli, elastic.units)


@pytest.mark.parametrize(
    "written",
    [
        0,
        -1,
        0.001,
        (8, 1),
        (0, 4),
        (1, 2, 4),
        [],
        [0.5, 2],
        "many",
        "1:2:3",
        None,
        True,
        b"12",
        range(1, 10**30),
    ],
)
def test_a_wrong_number_of_cores_is_refused_with_field_and_value(written: object) -> None:
    with pytest.raises((InvalidAction), match=r"^cpus="):
        cpu_request(written)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "written", [(1, 10**7), (1, 10**30), "1:10000000", [1, 2, 3, 4, 10**30], (1, 10**4000)]
)
def test_more_cores_than_there_are_mean_all_there_are(written: object) -> None:
    _, elastic = cpu_request(written, most=4)  # type: ignore[arg-type]

    assert elastic is not None
    assert (1, 2, 3, 4) == elastic.units


@pytest.mark.parametrize("written", [(8, 16), [8, 16]])
def test_of_amounts_that_are_all_too_many_the_least_is_asked_for(written: object) -> None:
    assert (8000, None) == cpu_request(written, most=4)  # type: ignore[arg-type]


def test_an_environment_owns_one_amount() -> None:
    assert [0, 500, 3000] == [owned_milli(cpus) for cpus in (None, 0.5, (3, 3))]
    with pytest.raises(InvalidAction, match=r"^cpus=\(1, 4\): an environment owns one amount"):
        owned_milli((1, 4))
