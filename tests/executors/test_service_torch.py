"""What PyTorch services answer is what the module says, wherever it stands and how often it moved."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

sys.path.insert(0, str(Path(__file__).parent / "modules"))

import torch_modules  # noqa: E402

import arl_tangram as at  # noqa: E402
from arl_tangram.core.model import Outcome  # noqa: E402
from arl_tangram.errors import Unavailable  # noqa: E402
from arl_tangram.executors.services import torch_answers, torch_requests  # noqa: E402
from arl_tangram.executors.services.devices import HostDevices  # noqa: E402
from arl_tangram.executors.services.port import Said, Seat  # noqa: E402
from arl_tangram.executors.services.torch import TorchDriver, TorchSettings  # noqa: E402
from arl_tangram.executors.services.torch_devices import HostPlace  # noqa: E402
from arl_tangram.runtime import service_options  # noqa: E402

MODULES = str(Path(__file__).parent / "modules")


def ask(module, method: str, inputs: list, copies: int = 1):
    request = {"method": method, "inputs": inputs}
    return torch_requests.answer(torch, [module] * copies, request)["outputs"]


def test_log_probabilities_are_those_of_each_token_given_the_ones_before() -> None:
    module = torch_modules.tiny()
    rows = ask(module, "logprobs", [[1, 2, 3], [4, 5]])
    with torch.inference_mode():
        logits = module(torch.tensor([[1, 2, 3]])).log_softmax(-1)

    assert [2, 1] == [len(row) for row in rows]
    assert pytest.approx([logits[0, 0, 2].item(), logits[0, 1, 3].item()]) == rows[0]


def test_embeddings_are_means_over_real_tokens_of_length_one() -> None:
    module = torch_modules.encoder()
    short, long = ask(module, "embeddings", ["ab", "abcdef"])
    (alone,) = ask(module, "embeddings", ["ab"])

    assert pytest.approx(alone) == short
    assert pytest.approx(1.0) == sum(x * x for x in long)


def test_a_method_of_the_module_comes_first_and_work_is_shared_out_in_order() -> None:
    module = torch_modules.encoder()
    texts = ["a", "bb", "ccc", "dddd", "eeeee"]

    assert pytest.approx(ask(module, "scores", texts)) == ask(module, "scores", texts, copies=2)
    assert [] == ask(module, "scores", [])


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ("what", "a request is"),
        ({"method": "logprobs"}, "a request is"),
        ({"method": "__init__", "inputs": [1]}, "there are logprobs"),
        ({"method": "forward", "inputs": [[1]]}, "there are logprobs"),
        ({"method": ["logprobs"], "inputs": [[1]]}, r"method=\['logprobs'\]: there are logprobs"),
        ({"method": "logprobs", "inputs": [[]]}, "at least one token"),
        ({"method": "logprobs", "inputs": ["text"]}, "tokenize"),
    ],
)
def test_a_wrong_request_is_named(request_, says) -> None:
    with pytest.raises(torch_requests.Rejected, match=says):
        torch_requests.answer(torch, [torch_modules.tiny()], request_)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("method", ["logprobs", "scores", "embeddings"])
@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ([[1, 2], [3, 1.7]], r"inputs\[1\]\[1\]=1.7: a token id is a whole number, such as 17"),
        ([[1], [2], ["3"]], r"inputs\[2\]\[0\]='3': a token id is a whole number"),
        ([[1], [True]], r"inputs\[1\]\[0\]=True: a token id is a whole number"),
        ([[1], [[2]]], r"inputs\[1\]\[0\]=\[2\]: a token id is a whole number"),
        ([[1], [None]], r"inputs\[1\]\[0\]=None: a token id is a whole number"),
        ([[1], 2], r"inputs\[1\]=2: give a list of token ids"),
        ([[1], "text"], r"inputs\[1\]='text': give a list of token ids, .* or texts only"),
        ([[1], {"a": 1}], r"inputs\[1\]=\{'a': 1\}: give a list of token ids"),
        ([[1], []], r"inputs\[1\]=\[\]: give at least one token"),
        ([[1], [2**70]], r"inputs\[1\]: a token id has at most 64 bits"),
    ],
)
def test_an_input_that_is_no_token_id_is_named_with_its_place_in_the_request(
    inputs, says, method, copies
) -> None:
    with pytest.raises(torch_requests.Rejected, match=says):
        ask(torch_modules.tiny(), method, inputs, copies)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("dict", r"'whole' gave a dict for . inputs?; give a list with a row for each"),
        ("set", r"'whole' gave a set for"),
        ("text", r"'whole' gave a str for"),
        ("bytes", r"'whole' gave a bytes for"),
        ("number", r"'whole' gave a torch.Tensor for"),
        ("more", r"'whole' gave 3 rows for [24] inputs; give one for each"),
        ("complex", r"'whole' gave complex numbers \(torch.complex64\).* torch.view_as_real"),
    ],
)
def test_what_is_not_one_row_for_each_input_is_never_taken_for_an_answer(
    what, says, copies
) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        ask(torch_modules.odd(), "whole", [what] * 4, copies)


def test_rows_are_counted_on_each_device_before_they_are_put_together() -> None:
    class Uneven(torch.nn.Module):
        def first(self, inputs):
            return inputs * 3 if inputs[0] == "a" else []

    with pytest.raises(ValueError, match="'first' gave 3 rows for 1 inputs"):
        ask(Uneven(), "first", ["a", "b"], copies=2)


def test_complex_numbers_are_named_wherever_they_come_from() -> None:
    odd = torch_modules.odd()
    for method, inputs, whose in (
        ("logprobs", [[1, 2]], "forward"),
        ("scores", [[1]], "forward"),
        ("embeddings", [[1]], "forward"),
        ("gives", ["complex"], "method 'gives'"),
    ):
        with pytest.raises(TypeError, match=f"{whose} gave complex numbers"):
            ask(odd, method, inputs)


def test_a_forward_that_gives_no_tensor_and_a_tokenizer_that_miscounts_are_named() -> None:
    class Pair(torch_modules.Encoder):
        def forward(self, ids):
            return ids, ids

    class Short(torch_modules.Encoder):
        def tokenize(self, texts):
            return [[1]]

    with pytest.raises(TypeError, match=r"forward gave a tuple; give a tensor, or .*last_hidden"):
        ask(Pair(), "embeddings", ["ab"])
    with pytest.raises(ValueError, match="tokenize gave 1 rows for 2 texts"):
        ask(Short(), "embeddings", ["ab", "cd"])


def test_numbers_arrive_as_they_are() -> None:
    odd = torch_modules.odd()

    assert [[1 << 40, 3]] == ask(odd, "kinds", [0])
    assert [0.1, 0.1] == ask(odd, "halves", [0, 0])


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("tensor", r"outputs\[1\]\['x'\]\[0\] is a torch.Tensor; .*tolist"),
        ("array", r"outputs\[1\]\[1\] is a numpy.ndarray; .*tolist"),
        ("set", r"outputs\[1\] is a set; give numbers, texts, lists and dicts$"),
        ("bytes", r"outputs\[1\] is a bytes"),
        ("key", r"outputs\[1\]\['x'\] has a key that is a tuple; give texts"),
        ("loop", r"no JSON: Circular reference"),
        ("huge", r"no JSON: Exceeds the limit"),
    ],
)
def test_what_is_no_json_is_named_with_its_place_in_the_answer(what, says) -> None:
    rows = ask(torch_modules.odd(), "gives", ["nan", what])

    with pytest.raises((TypeError, ValueError), match=says):
        torch_answers.encoded({"outputs": rows})


def test_a_copy_shares_what_the_module_shares_and_nothing_with_the_module(tmp_path) -> None:
    module = torch_modules.tied()
    place = HostPlace(torch, tmp_path)
    made = place.copy(module, "i1")

    assert made.head.weight is made.embedding.weight
    assert torch.equal(module.ballast, made.ballast)
    assert module.embedding.weight.data_ptr() != made.embedding.weight.data_ptr()
    assert (tmp_path / "i1").stat().st_size >= 1 << 20
    place.clear("i1")
    assert [] == list(tmp_path.iterdir())


def test_weights_of_any_kind_arrive_as_they_are(tmp_path) -> None:
    module = torch.nn.Module()
    module.register_buffer("brief", torch.arange(33).to(torch.bfloat16))
    module.register_buffer("turned", torch.arange(12.0).reshape(3, 4).T)
    module.register_buffer("nothing", torch.zeros(0, 3))
    module.register_buffer("single", torch.tensor(7))

    made = HostPlace(torch, tmp_path).copy(module, "i1")

    for name, tensor in module.named_buffers():
        assert torch.equal(tensor, dict(made.named_buffers())[name]), name
    made.single.add_(1)
    assert 7 == module.single.item()


def with_driver(module: str, body: Callable[[TorchDriver], Awaitable[None]], **settings) -> None:
    """Runs a test's body with a driver that has an instance `i1` on the first of two devices."""

    async def main() -> None:
        devices = HostDevices(2, 8)
        made = TorchSettings(
            module=f"torch_modules:{module}",
            path=(MODULES,),
            variables={"OMP_NUM_THREADS": "1"},
            **settings,
        )
        driver = TorchDriver(module, made, devices)
        try:
            async with asyncio.timeout(60):
                await driver.restore(seat("i1", 0))
                await body(driver)
        finally:
            await driver.close()
            held = [devices.mib - devices.free_mib(d) for d in range(devices.count)]
            devices.close()
        assert [0, 0] == held
        assert {asyncio.current_task()} == asyncio.all_tasks()

    asyncio.run(main())


def seat(instance: str, device: int) -> Seat:
    return Seat(instance=instance, devices=(device,), device_mib=8)


async def call(
    driver: TorchDriver, method: str, *inputs: object, timeout_s: float = 30, instance: str = "i1"
) -> Said:
    request = {"method": method, "inputs": list(inputs)}
    return await driver.call(instance, request, timeout_s=timeout_s)


@pytest.mark.slow
def test_whatever_a_method_gives_or_raises_fails_its_call_and_only_the_end_of_the_process_loses_it() -> (
    None
):
    async def body(driver: TorchDriver) -> None:
        for method, what, says in (
            ("gives", "tensor", "outputs[0]['x'][0] is a torch.Tensor"),
            ("gives", "array", "outputs[0][1] is a numpy.ndarray"),
            ("gives", "set", "outputs[0] is a set"),
            ("whole", "dict", "'whole' gave a dict for 1 inputs"),
            ("leaves", "exit", "SystemExit: enough"),
            ("leaves", "base", "BaseException: enough"),
            ("leaves", "mute", "Mute"),
        ):
            said = await call(driver, method, what)
            assert Outcome.FAILED is said.outcome, said
            assert says in said.reason
        low = await call(driver, "gives", "nan")
        assert "[nan, -inf]" == str(low.value["outputs"][0])  # as a token that cannot be has
        assert Outcome.LOST is (await call(driver, "leaves", "process")).outcome
        assert "exited with 3" in await driver.died("i1")

    with_driver("odd", body)


@pytest.mark.slow
def test_a_call_that_is_given_up_takes_up_its_place_until_the_worker_is_through_with_it() -> None:
    async def body(driver: TorchDriver) -> None:
        for _ in range(3):  # as one place is filled again and again
            late = await call(driver, "works", 0.3, timeout_s=0.05)
            assert Outcome.TIMED_OUT is late.outcome
            assert "no full reply within 0.05 s" == late.reason
        for _ in range(3):
            asking = asyncio.ensure_future(call(driver, "works", 0.3))
            for _ in range(3):  # and whoever waits for its end may be impatient
                await asyncio.sleep(0.03)
                asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert [[0, 1]] == (await call(driver, "at_once", 0)).value["outputs"]

    with_driver("slow", body)


@pytest.mark.slow
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_call_that_goes_on_and_on_takes_its_worker_along_which_is_told_and_comes_back(
    cancelled,
) -> None:
    async def body(driver: TorchDriver) -> None:
        await driver.restore(seat("i2", 1))
        told = [asyncio.ensure_future(driver.died(instance)) for instance in ("i1", "i2")]
        other = asyncio.ensure_future(call(driver, "works", 50, instance="i2"))
        asking = asyncio.ensure_future(
            call(driver, "works", 50, timeout_s=50 if cancelled else 0.05)
        )
        await asyncio.sleep(0.05)
        if cancelled:
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        else:
            assert Outcome.TIMED_OUT is (await asking).outcome
        assert Outcome.LOST is (await other).outcome
        reason = "it was ended: a call went on 0.3 s after its time"
        assert [reason, reason] == await asyncio.gather(*told)
        with pytest.raises(Unavailable, match="i1 is gone"):
            await call(driver, "at_once", 0)
        await driver.restore(seat("i3", 0))
        again = await call(driver, "at_once", 0, instance="i3")
        assert [[0, 0]] == again.value["outputs"]

    with_driver("slow", body, overtime_s=0.3)


@pytest.mark.slow
def test_what_is_being_restored_when_its_end_comes_is_not_on_devices_afterwards() -> None:
    async def body(driver: TorchDriver) -> None:
        await call(driver, "slows", 0.3)
        restoring = asyncio.ensure_future(driver.restore(seat("i2", 1)))
        await asyncio.sleep(0.1)
        restoring.cancel()
        await asyncio.wait([restoring])
        await driver.end("i2")
        await call(driver, "works", 1.0)  # whatever was under way is through by now
        assert 8 == driver._devices.free_mib(1)

    with_driver("slow", body)


@pytest.mark.slow
def test_a_call_whose_worker_had_to_be_ended_for_it_has_timed_out_and_is_not_asked_again(
    monkeypatch,
) -> None:
    made = functools.partial(TorchSettings, overtime_s=0.2)
    monkeypatch.setattr(service_options, "TorchSettings", made)

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            at.Tangram.local(gpus=1, gpu_memory="8MiB") as tangram,
        ):
            tangram.service(
                "slow", driver="torch", module="torch_modules:slow", path=MODULES, memory="8MiB"
            )
            request = {"method": "at_once", "inputs": [0]}
            (await tangram.call("slow", request)).check()
            stuck = {"method": "works", "inputs": [50]}
            answer = await tangram.call("slow", stuck, timeout=0.1, attempts=3)
            assert (Outcome.TIMED_OUT, 1) == (answer.outcome, answer.attempts)
            again = (await tangram.call("slow", request)).check()
            assert 1 == again.attempts  # it did not go to what was being ended
            assert {"outputs": [[0, 0]]} == again.value

    asyncio.run(main())


@pytest.mark.slow
def test_modules_take_turns_on_devices_and_answer_the_same_every_time() -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(100),
            at.Tangram.local(gpus=1, gpu_memory="4MiB") as tangram,
        ):
            for name in ("a", "b"):
                tangram.service(
                    name,
                    driver="torch",
                    module="torch_modules:tiny",
                    arguments={"vocabulary": 50 if name == "a" else 60},
                    path=MODULES,
                    memory="2MiB",
                    degrees={1: 1.0},
                    variables={"OMP_NUM_THREADS": "1"},
                )
            tangram.service(
                "big", driver="torch", module="torch_modules:tiny", path=MODULES, memory="1MiB"
            )
            request = {"method": "logprobs", "inputs": [[1, 2, 3]]}
            said = [(await tangram.call(name, request)).check().value for name in "abab"]
            assert said[0] == said[2] != said[1] == said[3]
            wrong = await tangram.call("a", {"method": "logprobs", "inputs": [[999]]})
            assert at.Outcome.FAILED is wrong.outcome
            assert "IndexError" in wrong.reason

    asyncio.run(main())


@pytest.mark.slow
def test_closing_does_not_wait_for_a_call_that_goes_on(monkeypatch) -> None:
    made = functools.partial(TorchSettings, overtime_s=3600)
    monkeypatch.setattr(service_options, "TorchSettings", made)

    async def main() -> None:
        tangram = await at.Tangram.local(gpus=1, gpu_memory="8MiB").open()
        tangram.service(
            "slow", driver="torch", module="torch_modules:slow", path=MODULES, memory="8MiB"
        )
        (await tangram.call("slow", {"method": "at_once", "inputs": [0]})).check()
        call = asyncio.ensure_future(tangram.call("slow", {"method": "works", "inputs": [3000]}))
        await asyncio.sleep(0.2)
        await asyncio.wait([asyncio.ensure_future(tangram.close())], timeout=30)
        assert call.done()
        assert Outcome.CANCELLED is (await call).outcome
        assert {asyncio.current_task()} == asyncio.all_tasks()

    asyncio.run(main())
