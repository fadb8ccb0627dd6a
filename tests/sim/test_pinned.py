"""A static deployment has one instance of each service, as wide as there are devices for."""

from __future__ import annotations

import pytest

from arl_tangram.errors import ConfigError
from arl_tangram.sim.cluster import gpu_nodes
from arl_tangram.sim.mopd import mopd
from arl_tangram.sim.pinned import best_widths, same_width, with_pinned_services

SMALL = mopd(batch=300)


@pytest.mark.parametrize(
    ("gpus", "widths"), [("8+1", [1] * 9), ("2x8+2", [2] * 9), ("4x8+4", [4] * 9), ("5x8", [4] * 9)]
)
def test_all_are_as_wide_as_there_are_devices_for(gpus: str, widths: list[int]) -> None:
    assert [(width,) for width in widths] == list(best_widths(SMALL, gpu_nodes(gpus)).values())


def test_what_is_left_goes_to_the_most_popular() -> None:
    widths = best_widths(mopd(seed=0), gpu_nodes("8+4"))

    assert 12 == sum(width for (width,) in widths.values())
    assert {"mopd-teacher-1"} <= {name for name, width in widths.items() if width == (2,)}


def test_widths_fit_on_nodes_that_are_too_small_for_the_wide_ones() -> None:
    assert {(1,), (2,)} == set(best_widths(SMALL, gpu_nodes("7x2")).values())


def test_every_service_is_pinned_and_nothing_else_changes() -> None:
    pinned = with_pinned_services(SMALL, gpu_nodes("8+1"))

    assert {(1,)} == {model.service.pinned for model in pinned.models}
    assert SMALL.trajectories == pinned.trajectories


def test_too_few_devices_for_one_instance_each_are_told() -> None:
    with pytest.raises(ConfigError, match=r"9 services takes at least 9 GPUs, and there are 8"):
        best_widths(SMALL, gpu_nodes("8"))


@pytest.mark.parametrize(("gpus", "width"), [("8+8+1", 1), ("2x8+2", 2), ("4x8+3", 2), ("5x8", 4)])
def test_one_width_for_all_is_the_widest_that_fits(gpus: str, width: int) -> None:
    assert {(width,)} == set(same_width(SMALL, gpu_nodes(gpus)).values())
    pinned = with_pinned_services(SMALL, gpu_nodes(gpus), same=True)
    assert {(width,)} == {model.service.pinned for model in pinned.models}
