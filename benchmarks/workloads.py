"""The models and batches that steps.py times: small ones for two cores, and two that fill a GPU."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Mlp(nn.Module):
    """features-1000-10."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(features, 1000), nn.Linear(1000, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.relu(self.first(x)))


class Cnn(nn.Module):
    """The network of the TensorFlow Privacy tutorial."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 16, 8, 2, padding=3), nn.Conv2d(16, 32, 4, 2)
        self.third, self.head = nn.Linear(512, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.first(x)), 2, 1)
        x = F.max_pool2d(F.relu(self.second(x)), 2, 1)
        return self.head(F.relu(self.third(x.flatten(1))))


class ResidualBlock(nn.Module):
    """Two normalised 3 x 3 convolutions beside a shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(16, channels), nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.norm2, self.conv2 = nn.GroupNorm(16, out), nn.Conv2d(out, out, 3, 1, 1, bias=False)
        same = stride == 1 and channels == out
        self.shortcut = nn.Identity() if same else nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.norm1(x))
        side = x if isinstance(self.shortcut, nn.Identity) else self.shortcut(hidden)
        return self.conv2(F.relu(self.norm2(self.conv1(hidden)))) + side


class WideResNet(nn.Module):
    """WRN-16-4 with group norm."""

    def __init__(self) -> None:
        super().__init__()
        widths, blocks = [16, 64, 128, 256], []
        for number, (channels, out) in enumerate(itertools.pairwise(widths)):
            blocks += [ResidualBlock(channels, out, 1 if number == 0 else 2), ResidualBlock(out, out, 1)]
        self.conv, self.blocks = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.Sequential(*blocks)
        self.norm, self.head = nn.GroupNorm(16, 256), nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.norm(self.blocks(self.conv(x)))).mean((2, 3)))


class Attend(nn.Module):
    """Attention of queries, keys and values that lie beside each other; it has no parameters."""

    def __init__(self, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal

    def forward(self, projected: Tensor) -> Tensor:
        count, length, features = projected.shape
        parts = projected.view(count, length, 3, self.heads, features // (3 * self.heads))
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return mixed.transpose(1, 2).reshape(count, length, features // 3)


class Block(nn.Module):
    """A layer of a transformer, normalised first."""

    def __init__(self, features: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.project, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.up, self.down = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)
        self.attend, self.activation = Attend(heads, causal), nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.out(self.attend(self.project(self.norm1(x))))
        return x + self.down(self.activation(self.up(self.norm2(x))))


class Encoder(nn.Module):
    """Four layers of 256 features and 4 heads, over 10,000 tokens; the mean of the positions is classified."""

    def __init__(self, length: int = 128, features: int = 256) -> None:
        super().__init__()
        self.embed = nn.Embedding(10_000, features)
        angles = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, features, 2) / features)
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], 1))
        self.layers = nn.Sequential(*[Block(features, 4) for _ in range(4)])
        self.norm, self.head = nn.LayerNorm(features), nn.Linear(features, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.layers(self.embed(x) + self.places)).mean(1))


class Reviews(nn.Module):
    """The mean of 16 features of every word, and two small layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.hidden, self.head = nn.Embedding(10_000, 16), nn.Linear(16, 16), nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.hidden(self.embed(x).mean(1))))


class Decoder(nn.Module):
    """A causal transformer that predicts the next token at every place. Its output is (batch, vocabulary, length).

    `common`: places are looked up once for all examples, as nanoGPT does it.
    """

    def __init__(
        self, vocabulary: int, length: int, features: int, heads: int, layers: int, common: bool = False
    ) -> None:
        super().__init__()
        self.common = common
        self.embed, self.places = nn.Embedding(vocabulary, features), nn.Embedding(length, features)
        self.layers = nn.Sequential(*[Block(features, heads, causal=True) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(features), nn.Linear(features, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        places = places if self.common else places.expand_as(x)
        return self.head(self.norm(self.layers(self.embed(x) + self.places(places)))).transpose(1, 2)


class Vision(nn.Module):
    """A vision transformer: patches, a token for the class, learned places."""

    def __init__(self, size: int, patch: int, features: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens = (size // patch) ** 2 + 1
        self.patches = nn.Conv2d(3, features, patch, patch)
        self.places = nn.Embedding(self.tokens, features)  # the class token is its place's
        self.layers = nn.Sequential(*[Block(features, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(features), nn.Linear(features, 1000)

    def forward(self, x: Tensor) -> Tensor:
        patches = F.pad(self.patches(x).flatten(2).transpose(1, 2), (0, 0, 1, 0))
        places = torch.arange(self.tokens, device=x.device).expand(len(x), -1)
        return self.head(self.norm(self.layers(patches + self.places(places)))[:, 0])


class ScaledBlock(Block):
    """A layer whose branches have scales, which its class holds itself."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__(features, heads)
        self.scale1, self.scale2 = nn.Parameter(torch.ones(features)), nn.Parameter(torch.ones(features))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.scale1 * self.out(self.attend(self.project(self.norm1(x))))
        return x + self.scale2 * self.down(self.activation(self.up(self.norm2(x))))


class HeldVision(nn.Module):
    """A vision transformer as most are written: its class holds the token of the class and the places itself."""

    def __init__(self, size: int, patch: int, features: int, heads: int, layers: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, features, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, features))
        self.places = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, features))
        self.layers = nn.Sequential(*[ScaledBlock(features, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(features), nn.Linear(features, 10)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), patches], 1) + self.places
        return self.head(self.norm(self.layers(tokens))[:, 0])


SMALL = ("W1", "W1b", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9")
LARGE = ("gpt", "vit", "gpt-lora", "gpt-1.3b", "gpt-1.3b-lora")
NARROW = ("adapters",)
"""Adapters, 192 matrices, on layers so narrow that Python's calls are nearly all of a step. Needs discreet[hf]."""

LANGUAGE = ("gpt2", "gpt2-lora", "roberta", "roberta-lora")
"""Models of transformers, in language.py."""

BATCH = {
    "W1": 600,
    "W1b": 600,
    "W2": 256,
    "W3": 64,
    "W4": 32,
    "W5": 512,
    "W6": 20,
    "W7": 8,
    "W8": 32,
    "W9": 12,
    "gpt": 16,
    "vit": 256,
}
BATCH |= {"gpt-lora": 16, "gpt-1.3b": 4, "gpt-1.3b-lora": 4}
BATCH |= {"adapters": 4}
BATCH |= {"gpt2": 8, "gpt2-lora": 8, "roberta": 8, "roberta-lora": 8}
"""Physical batches."""


def _adapted(model: nn.Module) -> nn.Module:
    """With LoRA of rank 8 on every linear layer of the blocks; the rest is frozen. Needs discreet[hf]."""
    from peft import LoraConfig, inject_adapter_in_model

    return inject_adapter_in_model(LoraConfig(r=8, target_modules=["project", "out", "up", "down"]), model)


def _decoder(tiny: bool, features: int = 768, heads: int = 12, layers: int = 12) -> nn.Module:
    return Decoder(64, 16, 24, 3, 2) if tiny else Decoder(50_257, 1024, features, heads, layers)


_MODELS: dict[str, Callable[[bool], nn.Module]] = {
    "W1": lambda tiny: Mlp(784),
    "W1b": lambda tiny: Mlp(60),
    "W2": lambda tiny: Cnn(),
    "W3": lambda tiny: WideResNet(),
    "W4": lambda tiny: Encoder(),
    "W5": lambda tiny: Reviews(),
    "W6": lambda tiny: nn.Linear(20, 2),
    "W7": lambda tiny: Decoder(10_000, 256, 256, 8, 6),
    "W8": lambda tiny: HeldVision(32, 4, 192, 3, 6),
    "W9": lambda tiny: Decoder(65, 64, 128, 4, 4, common=True),  # nanoGPT's small model of Shakespeare's letters
    "gpt": _decoder,
    "gpt-lora": lambda tiny: _adapted(_decoder(tiny)),
    "gpt-1.3b": lambda tiny: _decoder(tiny, 2048, 16, 24),
    "gpt-1.3b-lora": lambda tiny: _adapted(_decoder(tiny, 2048, 16, 24)),
    "adapters": lambda tiny: _adapted(Decoder(64, 8, 16, 2, 24)),
    "vit": lambda tiny: Vision(32, 16, 24, 3, 2) if tiny else Vision(224, 16, 384, 6, 12),
}


def problem(
    name: str, batch: int | None = None, device: str = "cpu", tiny: bool = False
) -> tuple[nn.Module, Tensor, Tensor]:
    """Model, inputs and targets of a workload, the same for everyone. `tiny` cuts the large ones down."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    if name in LANGUAGE:
        import language

        model, inputs, targets = language.problem(name, batch or BATCH[name], generator)
        return model.to(device), inputs.to(device), targets.to(device)
    rows = batch or (2 if tiny else BATCH[name])
    with torch.device(device):  # where billions of initial weights are drawn in a second
        model = _MODELS[name](tiny)
    inputs = _inputs(name, rows, tiny, generator)
    if name in ("W7", "W9", "adapters") or name.startswith("gpt"):
        targets = inputs.roll(-1, 1)
    else:
        classes = {"W4": 2, "W5": 2, "W6": 2, "vit": 1000}.get(name, 10)
        targets = torch.randint(classes, (rows,), generator=generator)
    return model, inputs.to(device), targets.to(device)


def _inputs(name: str, rows: int, tiny: bool, generator: torch.Generator) -> Tensor:
    if name in ("W4", "W5", "W7", "W9", "adapters") or name.startswith("gpt"):
        sizes = {"W4": (10_000, 128), "W5": (10_000, 256), "W7": (10_000, 256), "W9": (65, 64), "adapters": (64, 8)}
        words, length = sizes.get(name, (64, 16) if tiny else (50_257, 1024))
        uniform = torch.rand(rows, length, generator=generator)
        return (torch.exp(uniform * math.log(words)).long() - 1).clamp(0, words - 1)  # frequent and rare, as words are
    size = 32 if tiny else 224
    shapes = {"W1": (784,), "W1b": (60,), "W2": (1, 28, 28), "W3": (3, 32, 32), "W6": (20,), "W8": (3, 32, 32)}
    return torch.randn(rows, *(shapes | {"vit": (3, size, size)})[name], generator=generator)
