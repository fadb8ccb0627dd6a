"""Small PyTorch modules with random weights, for tests."""

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


def tiny(vocabulary: int = 50, width: int = 16) -> Tiny:
    return Tiny(vocabulary, width)


def tied(vocabulary: int = 50, width: int = 16) -> Tied:
    return Tied(vocabulary, width)


def encoder() -> Encoder:
    return Encoder()
