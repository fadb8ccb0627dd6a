"""What can be asked of a module: log-probabilities, scores, embeddings, or a method of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .torch_answers import named, real, rows_of

_MOST = 2**63


class Rejected(ValueError):
    """The request is wrong."""


def answer(torch: Any, copies: Sequence[Any], request: Any) -> Any:
    """Answer ``{"method": …, "inputs": […]}``, a share of the inputs on each device."""
    if not isinstance(request, Mapping) or not isinstance(request.get("inputs"), list):
        raise Rejected('a request is {"method": "logprobs", "inputs": [[1, 2, 3], …]}')
    name, inputs = request.get("method", ""), request["inputs"]
    work = _work(torch, copies[0], name, inputs)
    if not inputs:
        return {"outputs": []}
    step = -(-len(inputs) // len(copies))
    shares = [inputs[i : i + step] for i in range(0, len(inputs), step)]

    def run(module: Any, share: list[Any]) -> list[Any]:
        with torch.inference_mode():
            return rows_of(torch, work(module, share), name, inputs=len(share))

    if len(shares) == 1:
        return {"outputs": run(copies[0], shares[0])}
    with ThreadPoolExecutor(len(shares)) as pool:
        parts = pool.map(run, copies, shares)
        return {"outputs": [row for part in parts for row in part]}


def _work(torch: Any, module: Any, name: Any, inputs: list[Any]) -> Callable[[Any, list[Any]], Any]:
    """How to answer a method on a device. Raises `Rejected` if the module has no such method."""
    known: Mapping[str, Callable[[Any, Any, list[Any]], list[Any]]] = {
        "logprobs": _logprobs,
        "scores": _scores,
        "embeddings": _embeddings,
    }
    own = [n for n in vars(type(module)) if not n.startswith("_") and n != "forward"]
    if name in own:
        return lambda module, share: getattr(module, name)(share)
    if isinstance(name, str) and name in known:
        _check(module, inputs)
        return lambda module, share: known[name](torch, module, share)
    raise Rejected(f"method={name!r}: there are {', '.join([*known, *own])}")


def _check(module: Any, inputs: list[Any]) -> None:
    """Raise `Rejected` unless all are texts, for a module that takes these, or all are token ids."""
    if all(isinstance(text, str) for text in inputs):
        if not hasattr(module, "tokenize"):
            raise Rejected("inputs: texts need a module with a method tokenize(texts)")
        return
    for i, row in enumerate(inputs):
        where = f"inputs[{i}]"
        if not isinstance(row, list):
            raise Rejected(
                f"{where}={row!r:.60}: give a list of token ids, such as [1, 2, 3], or texts only"
            )
        if not row:
            raise Rejected(f"{where}=[]: give at least one token")
        if set(map(type, row)) != {int}:
            j, token = next((j, token) for j, token in enumerate(row) if type(token) is not int)
            raise Rejected(f"{where}[{j}]={token!r:.60}: a token id is a whole number, such as 17")
        if not -_MOST <= min(row) <= max(row) < _MOST:
            raise Rejected(f"{where}: a token id has at most 64 bits, and one has more")


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
        texts, share = share, module.tokenize(share)
        if len(share) != len(texts):
            raise ValueError(f"tokenize gave {len(share)} rows for {len(texts)} texts")
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
    out = getattr(out, field, out)
    if not hasattr(out, "is_complex"):
        raise TypeError(f"forward gave a {named(out)}; give a tensor, or what has one as .{field}")
    return real(out, "forward")
