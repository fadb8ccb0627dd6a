"""What can be asked of a module: log-probabilities, scores, embeddings, or a method of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Rejected(ValueError):
    """The request is wrong."""


def answer(torch: Any, copies: Sequence[Any], request: Any) -> Any:
    """Answer ``{"method": …, "inputs": […]}``, a share of the inputs on each device."""
    if not isinstance(request, Mapping) or not isinstance(request.get("inputs"), list):
        raise Rejected('a request is {"method": "logprobs", "inputs": [[1, 2, 3], …]}')
    name, inputs = request.get("method", ""), request["inputs"]
    work = _work(torch, copies[0], name)
    if not inputs:
        return {"outputs": []}
    step = -(-len(inputs) // len(copies))
    shares = [inputs[i : i + step] for i in range(0, len(inputs), step)]

    def run(module: Any, share: list[Any]) -> list[Any]:
        with torch.inference_mode():
            return work(module, share)

    if len(shares) == 1:
        return {"outputs": run(copies[0], shares[0])}
    with ThreadPoolExecutor(len(shares)) as pool:
        parts = pool.map(run, copies, shares)
        return {"outputs": [row for part in parts for row in part]}


def _work(torch: Any, module: Any, name: str) -> Callable[[Any, list[Any]], list[Any]]:
    known: Mapping[str, Callable[[Any, Any, list[Any]], list[Any]]] = {
        "logprobs": _logprobs,
        "scores": _scores,
        "embeddings": _embeddings,
    }
    if name and not name.startswith("_") and name in vars(type(module)) and name != "forward":
        return lambda module, share: _plain(torch, getattr(module, name)(share))
    if name in known:
        return lambda module, share: known[name](torch, module, share)
    own = [n for n in vars(type(module)) if not n.startswith("_") and n != "forward"]
    raise Rejected(f"method={name!r}: there are {', '.join([*known, *own])}")


def _plain(torch: Any, value: Any) -> list[Any]:
    rows = value.float().tolist() if isinstance(value, torch.Tensor) else list(value)
    return [_plain_row(torch, row) for row in rows]


def _plain_row(torch: Any, row: Any) -> Any:
    return row.float().tolist() if isinstance(row, torch.Tensor) else row


def _logprobs(torch: Any, module: Any, share: list[Any]) -> list[Any]:
    """Of each token but the first, given those before it."""
    ids, mask, lengths = _batch(torch, module, share)
    logits = _run(module, ids, mask, "logits")[:, :-1].float()
    each = logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    return [row[: n - 1].tolist() for row, n in zip(each, lengths, strict=True)]


def _scores(torch: Any, module: Any, share: list[Any]) -> list[Any]:
    """One number for each input: what the module says at its last token, or of the whole."""
    ids, mask, lengths = _batch(torch, module, share)
    out = _run(module, ids, mask, "logits").float()
    if out.dim() > 1 and out.shape[1] == ids.shape[1] and out.shape[1] > 1:
        last = torch.tensor(lengths, device=out.device) - 1
        out = out[torch.arange(len(lengths), device=out.device), last]
    out = out.reshape(len(lengths), -1)
    if out.shape[1] != 1:
        raise Rejected(f"the module gives {out.shape[1]} numbers for an input, and a score is one")
    scores: list[Any] = out[:, 0].tolist()
    return scores


def _embeddings(torch: Any, module: Any, share: list[Any]) -> list[Any]:
    """A vector of length 1 for each input, the mean over its tokens if the module gives many."""
    ids, mask, _ = _batch(torch, module, share)
    out = _run(module, ids, mask, "last_hidden_state").float()
    if out.dim() == 3:
        weights = mask[:, :, None].to(out.dtype)
        out = (out * weights).sum(1) / weights.sum(1)
    vectors: list[Any] = torch.nn.functional.normalize(out, dim=-1).tolist()
    return vectors


def _batch(torch: Any, module: Any, share: list[Any]) -> tuple[Any, Any, list[int]]:
    """Token ids, padded on the right, with what is real of them."""
    if all(isinstance(text, str) for text in share):
        if not hasattr(module, "tokenize"):
            raise Rejected("inputs: texts need a module with a method tokenize(texts)")
        share = module.tokenize(share)
    lengths = [len(row) for row in share]
    if not all(lengths):
        raise Rejected("inputs: each has at least one token")
    ids = torch.zeros((len(share), max(lengths)), dtype=torch.long)
    for i, row in enumerate(share):
        ids[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    mask = torch.arange(ids.shape[1])[None, :] < torch.tensor(lengths)[:, None]
    device = next((t.device for t in module.parameters()), ids.device)
    return ids.to(device), mask.to(device), lengths


def _run(module: Any, ids: Any, mask: Any, field: str) -> Any:
    if "attention_mask" in inspect.signature(module.forward).parameters:
        out = module(ids, attention_mask=mask)
    else:
        out = module(ids)
    return getattr(out, field, out)
