"""What PyTorch services answer is what the module says, wherever it stands and how often it moved."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

sys.path.insert(0, str(Path(__file__).parent / "modules"))

import torch_modules  # noqa: E402

import arl_tangram as at  # noqa: E402
from arl_tangram.executors.services import torch_requests  # noqa: E402
from arl_tangram.executors.services.torch_devices import HostPlace  # noqa: E402

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
        ({"method": "logprobs", "inputs": [[]]}, "at least one token"),
        ({"method": "logprobs", "inputs": ["text"]}, "tokenize"),
    ],
)
def test_a_wrong_request_is_named(request_, says) -> None:
    with pytest.raises(torch_requests.Rejected, match=says):
        torch_requests.answer(torch, [torch_modules.tiny()], request_)


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
