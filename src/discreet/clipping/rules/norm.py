"""The affine part of normalisation layers: a scale and a shift, mostly with one number for each channel."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from discreet.clipping.rules.base import Formed, refuse, rule
from discreet.clipping.rules.numbers import wide


class Affine(Formed):
    """output = weight x normalised + bias: the weight's gradient is the sum over positions of gradient x normalised,
    the bias's that of the gradient."""

    @abstractmethod
    def normalised(self, activation: Tensor) -> Tensor:
        """The normalised input, to which the scale is applied."""

    def positions(self) -> list[int]:
        """The axes of `gradient` that are neither the axis of the examples nor axes of the parameters."""
        return list(range(2, self.gradient.dim()))

    def gradients(self, start: int, stop: int) -> dict[str, Tensor]:
        gradient, axes, rows = self.gradient[start:stop], self.positions(), {}
        if "weight" in self.trained:
            product = self.normalised(self.activation[start:stop]) * gradient
            rows["weight"] = product.sum(axes) if axes else product
        if "bias" in self.trained:
            rows["bias"] = gradient.sum(axes) if axes else gradient
        return rows

    def bytes_per_example(self) -> int:
        return 2 * self.gradient[0].numel() * self.gradient.element_size()


@rule(nn.LayerNorm, nn.RMSNorm)
class LayerNormRule(Affine):
    """Normalised over the last axes; the axes between the first and these are positions."""

    takes_positions = True

    def normalised(self, activation: Tensor) -> Tensor:
        module: Any = self.module
        if isinstance(module, nn.RMSNorm):
            eps = module.eps if module.eps is not None else torch.finfo(next(module.parameters()).dtype).eps
            return F.rms_norm(activation, module.normalized_shape, None, eps)
        return F.layer_norm(activation, module.normalized_shape, None, None, module.eps)

    def positions(self) -> list[int]:
        module: Any = self.module
        return list(range(1, self.gradient.dim() - len(module.normalized_shape)))


@rule(nn.GroupNorm)
class GroupNormRule(Affine):
    """Normalised over groups of channels."""

    def normalised(self, activation: Tensor) -> Tensor:
        module: Any = self.module
        return F.group_norm(activation, module.num_groups, None, None, module.eps)


@rule(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
class InstanceNormRule(Affine):
    """Normalised over the positions of each channel, or in evaluation mode by stored statistics."""

    def __init__(self, module: nn.Module, *captured: Any) -> None:
        super().__init__(module, *captured)
        assert isinstance(module, _InstanceNorm)
        if module.training and module.track_running_stats:
            raise refuse(module, "stores statistics of private data; set track_running_stats=False")

    def normalised(self, activation: Tensor) -> Tensor:
        module: Any = self.module
        kept = module.track_running_stats
        mean, variance = (wide(module.running_mean), wide(module.running_var)) if kept else (None, None)
        return F.instance_norm(activation, mean, variance, None, None, not kept, 0.0, module.eps)


@rule(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
class FrozenBatchNormRule(Affine):
    """Normalised by stored statistics, in evaluation mode. Training mode is refused, since it mixes examples."""

    def __init__(self, module: nn.Module, *captured: Any) -> None:
        super().__init__(module, *captured)
        assert isinstance(module, _BatchNorm)
        if module.training or module.running_mean is None:
            raise refuse(module, "mixes the examples of a batch; use torch.nn.GroupNorm, or keep it in eval()")

    def normalised(self, activation: Tensor) -> Tensor:
        module: Any = self.module
        mean, variance = wide(module.running_mean), wide(module.running_var)
        return F.batch_norm(activation, mean, variance, None, None, False, 0.0, module.eps)


@rule(nn.PReLU)
class PReLURule(Formed):
    """max(0, x) + weight x min(0, x), with one weight or one for each channel."""

    def gradients(self, start: int, stop: int) -> dict[str, Tensor]:
        product = self.activation[start:stop].clamp(max=0) * self.gradient[start:stop]
        channels = self.module.get_parameter("weight").numel()
        if product.dim() > 1 and channels > 1:
            return {"weight": product.sum(list(range(2, product.dim()))) if product.dim() > 2 else product}
        return {"weight": product.reshape(len(product), -1).sum(1, keepdim=True)}
