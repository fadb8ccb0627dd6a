"""Small PyTorch modules with random weights, for tests."""

import os
import sys
import threading
import time

import torch


class Tiny(torch.nn.Module):
    """A language model of sorts: the next token depends on this one."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.head = torch.nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("ballast", torch.zeros(1 << 18))  # 1 MiB

    def forward(self, ids):
        return self.head(self.embedding(ids))

    def wait(self, seconds):
        time.sleep(seconds[0])
        return seconds


class Tied(Tiny):
    """Its head is its embedding."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__(vocabulary, width)
        self.head.weight = self.embedding.weight


class Encoder(torch.nn.Module):
    """A vector for each token, and a text's tokens are its bytes."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(256, width)
        self.score = torch.nn.Linear(width, 1)

    def tokenize(self, texts):
        return [list(text.encode()) for text in texts]

    def forward(self, ids):
        return self.embedding(ids)

    def scores(self, texts):
        rows = self.tokenize(texts)
        return [self.score(self.embedding(torch.tensor(row)).mean(0))[0] for row in rows]


class Slow(Tiny):
    """It takes its time for everything, and remembers how much of it went on at once."""

    def __init__(self) -> None:
        super().__init__(50, 16)
        self.pause_s = 0.0
        self.lock = threading.Lock()
        self.now = self.most = 0

    def __deepcopy__(self, memo):
        return self  # all count together

    def parameters(self, recurse=True):
        time.sleep(self.pause_s)
        return super().parameters(recurse)

    def works(self, seconds):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(seconds[0])
        with self.lock:
            self.now -= 1
        return seconds

    def at_once(self, inputs):
        return [[self.now, self.most] for _ in inputs]

    def slows(self, seconds):
        self.pause_s = seconds[0]
        return seconds


class Odd(torch.nn.Module):
    """What it gives back is not what anybody expects."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4))

    def forward(self, ids):
        return ids.float()[:, :, None] * 1j

    def gives(self, inputs):
        return [ODD[name]() for name in inputs]

    def whole(self, inputs):
        return ODD[inputs[0]]()

    def kinds(self, inputs):
        return torch.tensor([[1 << 40, 3]] * len(inputs))

    def halves(self, inputs):
        return torch.tensor([0.1] * len(inputs), dtype=torch.float64)

    def leaves(self, inputs):
        how = inputs[0]
        if how == "exit":
            sys.exit("enough")
        if how == "process":
            os._exit(3)
        raise (Mute if how == "mute" else BaseException)("enough")


class Mute(Exception):
    """It cannot even be said."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def _loop():
    rows = []
    rows.append(rows)
    return rows


ODD = {
    "tensor": lambda: {"x": [torch.zeros(1)]},
    "array": lambda: [1, torch.zeros(1).numpy()],
    "set": lambda: {1},
    "bytes": lambda: b"1",
    "key": lambda: {"x": {(1, 2): 3}},
    "loop": _loop,
    "huge": lambda: 10**5000,
    "complex": lambda: torch.zeros(1, dtype=torch.complex64),
    "dict": lambda: {"a": 1, "b": 2},
    "text": lambda: "ab",
    "number": lambda: torch.tensor(1.5),
    "more": lambda: [1, 2, 3],
    "nan": lambda: [float("nan"), float("-inf")],
}


def odd() -> Odd:
    return Odd()


def slow() -> Slow:
    return Slow()


def tiny(vocabulary: int = 50, width: int = 16) -> Tiny:
    return Tiny(vocabulary, width)


def tied(vocabulary: int = 50, width: int = 16) -> Tied:
    return Tied(vocabulary, width)


def encoder() -> Encoder:
    return Encoder()
