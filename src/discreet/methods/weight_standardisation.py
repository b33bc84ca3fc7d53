"""Weight standardisation: each output's weights get mean zero and fixed variance, without statistics of data."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils import parametrize

from discreet.core.errors import UnsupportedModel, kind_of

_KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


class Standardised(nn.Module):
    """weight -> (weight - mean) / sqrt((variance + eps) x fan-in), mean and variance over each output's weights.

    Qiao et al. 2019, with the factor 1 / sqrt(fan-in) of Brock, De and Smith 2021, so that outputs for inputs of
    variance 1 have variance 1.
    """

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, weight: Tensor) -> Tensor:
        flat = weight.flatten(1)
        centred = flat - flat.mean(1, keepdim=True)
        size = (centred.square().mean(1, keepdim=True) + self.eps) * flat.shape[1]
        return (centred / size.sqrt()).view_as(weight)


def standardise_weights(module: nn.Module, eps: float = 1e-5) -> nn.Module:
    """Standardise the weights of a Linear or Conv layer, or of all those inside a model; returns the same module.

    The weight before standardisation (`parametrizations.weight.original`) is trained, clipped and published, so
    standardise before the optimizer is made. An output with a single weight would always be zero, and is refused.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, _KINDS)]
    if not layers:
        raise UnsupportedModel(f"{kind_of(module)} has no Linear or Conv layer to standardise the weights of")
    for layer in layers:
        if layer.weight[0].numel() < 2:
            raise UnsupportedModel(f"{kind_of(layer)} has one weight for each output, which has no spread")
    for layer in layers:
        if not parametrize.is_parametrized(layer, "weight"):
            parametrize.register_parametrization(layer, "weight", Standardised(eps))
    return module
