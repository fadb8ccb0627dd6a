"""A small causal language model with random weights: it takes time, memory and a seed, and knows nothing."""

import torch
from torch import nn

VOCABULARY = 8192


class Teacher(nn.Module):
    """A transformer decoder whose answers depend on its seed."""

    def __init__(self, seed, width, layers):
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                nhead=width // 64,
                dim_feedforward=4 * width,
                dropout=0.0,
                batch_first=True,
                norm_first=True,
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        states = self.embedding(ids)
        past = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], device=ids.device)
        for layer in self.layers:
            states = layer(states, src_mask=past, is_causal=True)
        return self.norm(states) @ self.embedding.weight.T / 32


def teacher(seed, width=256, layers=6):
    return Teacher(seed, width, layers)
