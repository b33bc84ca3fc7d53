"""Networks whose weights come from a file: the usual names, and one clear error for what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from layers import difference
from safetensors.torch import save_file

from discreet import InputError
from discreet.features import FRONT_ENDS
from discreet.recipes.models.residual import resnet9, resnet18

VGG = (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M")


def vgg_weights(width: int) -> dict[str, torch.Tensor]:
    """Small random weights under the names of the usual files, with a classifier that is not needed."""
    torch.manual_seed(0)
    found, inputs, place = {"classifier.0.weight": torch.zeros(2, 2)}, 3, 0
    for one in VGG:
        if one == "M":
            place += 1
            continue
        channels = width * int(one) // 64
        found[f"features.{place}.weight"] = torch.randn(channels, inputs, 3, 3) / (3 * inputs**0.5)
        found[f"features.{place}.bias"] = 0.1 * torch.randn(channels)
        inputs, place = channels, place + 2
    return found


def test_vgg16_with_weights_of_a_file(tmp_path: Path) -> None:
    weights = vgg_weights(4)
    save_file(weights, tmp_path / "vgg.safetensors")
    images = torch.rand(2, 3, 64, 32)
    front_end = FRONT_ENDS["vgg16"]((3, 64, 32), width=4, weights=str(tmp_path / "vgg.safetensors"), size=1.0)
    x = (images - torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)) / torch.tensor([0.229, 0.224, 0.225]).view(
        1, 3, 1, 1
    )
    place = 0
    for one in VGG:
        if one == "M":
            x, place = F.max_pool2d(x, 2), place + 1
        else:
            x = F.relu(F.conv2d(x, weights[f"features.{place}.weight"], weights[f"features.{place}.bias"], padding=1))
            place += 2
    torch.testing.assert_close(front_end(images), F.normalize(x.flatten(1)))
    assert not torch.allclose(FRONT_ENDS["vgg16"]((3, 64, 32), width=4, size=1.0)(images), front_end(images))


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    file = tmp_path / "vgg.safetensors"
    save_file(vgg_weights(4), file)
    with pytest.raises(InputError, match=r"has shape \(4, 3, 3, 3\) under features.0.weight"):
        FRONT_ENDS["vgg16"]((3, 32, 32), width=8, weights=str(file))
    save_file({"features.0.weight": torch.zeros(4, 3, 3, 3)}, file)
    with pytest.raises(InputError, match=r"has nothing under features\.0\.bias"):
        FRONT_ENDS["vgg16"]((3, 32, 32), width=4, weights=str(file))
    file.write_text("no weights")
    with pytest.raises(InputError, match="a safetensors file is needed"):
        FRONT_ENDS["alexnet"]((3, 32, 32), weights=str(file))


def test_resnet18_has_the_weights_of_its_file_but_for_the_last_layer(tmp_path: Path) -> None:
    given = resnet18(outputs=7, width=2, side=32, seed=5)
    save_file(given.state_dict(), tmp_path / "resnet.safetensors")
    tuned = resnet18(outputs=3, width=2, side=32, weights=str(tmp_path / "resnet.safetensors"), last=True)
    same = {name for name, value in tuned.state_dict().items() if torch.equal(value, given.state_dict()[name])}
    assert set(tuned.state_dict()) - same == {"fc.weight", "fc.bias"}
    assert "layer4.1.bn2.running_var" in same
    assert {name for name, p in tuned.named_parameters() if p.requires_grad} == {"fc.weight", "fc.bias"}
    with pytest.raises(InputError, match="side at least 32"):
        resnet18(side=8)


@pytest.mark.parametrize("make", [lambda: resnet9(width=4, groups=2), lambda: resnet18(width=2, side=32)])
def test_residual_networks_keep_examples_apart(make: object) -> None:
    network = make()  # type: ignore[operator]
    images = torch.rand(3, 3, 32, 32)
    others = torch.cat([images[:1], torch.rand(2, 3, 32, 32)])
    torch.testing.assert_close(network(images)[0], network(others)[0])
    assert difference("bookkeeping", network, images, torch.rand(3) + 0.1, 0.5) <= 1e-4


def test_resnet9_has_the_size_of_the_usual_one() -> None:
    assert sum(p.numel() for p in resnet9().parameters()) == 6_573_130
