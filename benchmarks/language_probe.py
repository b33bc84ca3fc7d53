"""What a pretrained masked model knows of sentiment: a linear probe without privacy, on the public half alone.

python benchmarks/language_probe.py --data DIR --model models/masked --tokens 128 --first 0

Trained on 4,000 reviews, measured on 2,000 others. A review longer than `tokens` is its `first` ones and its last ones.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from language_pretraining import clean, is_public
from sklearn.linear_model import LogisticRegression
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from discreet.data.sets.imdb import reviews

TRAINED, ALL = 4000, 6000
STRENGTHS = (0.01, 0.1, 1.0)


def public_reviews(data: Path) -> tuple[list[str], np.ndarray]:
    """Texts of the public half in an order that a public seed decides, and their labels."""
    found = sorted({clean(text): label for _, label, text in reviews(data, "train") if is_public(text)}.items())
    chosen = [found[place] for place in np.random.default_rng(5).permutation(len(found))[:ALL]]
    return [text for text, _ in chosen], np.array([label for _, label in chosen])


def cut(pieces: list[int], tokens: int, first: int) -> list[int]:
    """[CLS] and `first` pieces, then the last ones, `tokens` in all."""
    return pieces if len(pieces) <= tokens else pieces[: first + 1] + pieces[len(pieces) - (tokens - first - 1) :]


def pooled(folder: Path, texts: list[str], tokens: int, first: int) -> dict[str, np.ndarray]:
    """(texts, features) by name: the mean over tokens of word vectors, of the last layer, and after the head."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows = [cut(one, tokens, first) for one in AutoTokenizer.from_pretrained(folder)(texts, verbose=False)["input_ids"]]
    found: dict[str, list[torch.Tensor]] = {"words": [], "first token": [], "mean": [], "head": []}
    with torch.no_grad():
        for start in range(0, len(rows), 100):
            some = [torch.tensor(row) for row in rows[start : start + 100]]
            ids = torch.nn.utils.rnn.pad_sequence(some, batch_first=True)
            there = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in some], batch_first=True)
            hidden = model.model(input_ids=ids, attention_mask=there).last_hidden_state
            share = (there / there.sum(1, keepdim=True)).unsqueeze(2)
            found["words"].append((model.model.embeddings(ids) * share).sum(1))
            found["first token"].append(hidden[:, 0])
            found["mean"].append((hidden * share).sum(1))
            found["head"].append(model.head(found["mean"][-1]))
    return {name: torch.cat(parts).numpy() for name, parts in found.items()}


def probe(features: np.ndarray, labels: np.ndarray) -> float:
    """Accuracy of a logistic regression on standardised features, the best of three strengths, in hindsight."""
    scaled = (features - features[:TRAINED].mean(0)) / (features[:TRAINED].std(0) + 1e-6)
    fitted = [
        LogisticRegression(C=10 * strength / features.shape[1], max_iter=300).fit(scaled[:TRAINED], labels[:TRAINED])
        for strength in STRENGTHS
    ]
    return float(max(one.score(scaled[TRAINED:], labels[TRAINED:]) for one in fitted))


def main() -> None:
    """Print a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts, labels = public_reviews(options.data)
    found = pooled(options.model, texts, options.tokens, options.first)
    scores = {name: round(probe(features, labels), 4) for name, features in found.items()}
    print(json.dumps({"tokens": options.tokens, "first": options.first, **scores}))


if __name__ == "__main__":
    main()
