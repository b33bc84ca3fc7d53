"""Views of an example are clipped as one: they cost no privacy, and chunks bound their memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import blobs, linear, tiny_plan, tiny_training
from torch import Tensor, nn

from discreet import Augmented, InputError, PrivacyViolation, UnsupportedModel
from discreet.clipping import ENGINES, Chunk, Clip, Units
from discreet.clipping.separation import Function
from discreet.clipping.separation.examine import FEWEST
from discreet.data import as_private, flip, shift
from discreet.plan import Metric
from discreet.randomness import TestStream
from discreet.recipes import load_recipe
from discreet.training.augmented_views import views_of

CLIP = Clip(0.1, 2.0**-30)


def noisy(inputs: Tensor) -> Tensor:
    return inputs + torch.randn_like(inputs)


def flat(sums: dict[str, Tensor]) -> Tensor:
    return torch.cat([part.double().flatten() for part in sums.values()])


def summed(engine: str, rows: int, transform: Any, views: int, units: Units | None = None) -> Tensor:
    """The sum over the first rows of the blobs; every row has the same random numbers in every call."""
    inputs, targets = (part[:rows] for part in blobs())
    torch.manual_seed(4)
    data = as_private(Augmented((inputs, targets), transform, views))
    chunk = views_of(data, Chunk(inputs, targets, units))
    return flat(ENGINES[engine].clipped_sum(linear(), nn.CrossEntropyLoss(), chunk, CLIP))


@pytest.mark.parametrize("units", [None, Units((1, 4, 2))], ids=["examples", "users"])
@pytest.mark.parametrize("engine", ENGINES)
def test_equal_views_count_once(engine: str, units: Units | None) -> None:
    once = summed(engine, 7, lambda x: x, 1, units)
    torch.testing.assert_close(summed(engine, 7, lambda x: x, 5, units), once, rtol=0, atol=1e-7)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_example_moves_the_sum_by_the_clip_norm_at_most_however_many_views_it_has(engine: str) -> None:
    whole, rest = (summed(engine, rows, noisy, 6) for rows in (5, 4))
    moved = float((whole - rest).norm())
    assert 0.5 * CLIP.norm < moved <= CLIP.norm * (1 + 1e-6)


def test_that_bound_is_missed_if_views_are_clipped_one_by_one() -> None:
    inputs, targets = (part[:1].repeat_interleave(6, 0) for part in blobs())
    sums = ENGINES["reference"].clipped_sum(linear(), nn.CrossEntropyLoss(), Chunk(inputs, targets), CLIP)
    assert float(flat(sums).norm()) > 5 * CLIP.norm


def test_views_of_a_row_stand_side_by_side_and_belong_to_its_unit() -> None:
    inputs, targets = torch.arange(3.0).view(3, 1), torch.arange(3)
    data = as_private(Augmented((inputs, targets), lambda x: x + 0.5, 2))
    seen = views_of(data, Chunk(inputs, targets, Units((1, 2))))
    assert seen.inputs.flatten().tolist() == [0.5, 0.5, 1.5, 1.5, 2.5, 2.5]
    assert seen.targets.tolist() == [0, 0, 1, 1, 2, 2]
    assert seen.units == Units((2, 4))


def trained(folder: Path, **options: Any) -> Tensor:
    model = linear()
    tiny_training(folder, model=model, **options).run()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_a_run_with_equal_views_is_the_run_without(tmp_path: Path) -> None:
    plain = trained(tmp_path / "a")
    four = trained(tmp_path / "b", data=Augmented(blobs(), lambda x: x.clone(), 4))
    torch.testing.assert_close(four, plain, rtol=0, atol=2e-5)  # the noise covers what was measured for each
    assert not torch.equal(trained(tmp_path / "c", data=Augmented(blobs(), noisy, 4)), plain)


def recorder(seen: list[Tensor]) -> Callable[[Tensor], Tensor]:
    def transform(inputs: Tensor) -> Tensor:
        seen.append(noisy(torch.zeros_like(inputs)))
        return inputs + seen[-1]

    return transform


def test_views_are_drawn_from_the_secret_stream_of_the_run(tmp_path: Path) -> None:
    drawn: dict[str, list[Tensor]] = {}
    for name, key, seed in (("a", 7, 0), ("b", 7, 1), ("c", 8, 0)):
        data = Augmented(blobs(), recorder(drawn.setdefault(name, [])))
        training = tiny_training(tmp_path / name, data=data, stream=TestStream(key))
        drawn[name].clear()
        torch.manual_seed(seed)
        training.run()
    assert len(drawn["a"]) == 7
    assert all(torch.equal(*pair) for pair in zip(drawn["a"], drawn["b"], strict=True))
    first, other = drawn["a"][0], drawn["c"][0]
    assert not torch.equal(first[: len(other)], other[: len(first)])
    assert not torch.equal(drawn["a"][0][0], drawn["a"][1][0])


@pytest.mark.parametrize("users", [False, True])
def test_a_chunk_has_no_more_rows_than_without_views(tmp_path: Path, users: bool) -> None:
    options: dict[str, Any] = {}
    if users:
        options = {"units": [i // 2 for i in range(24)], "plan": tiny_plan(unit="user", rows_per_unit=2)}
    sizes: list[int] = []
    training = tiny_training(tmp_path, physical_batch=9, data=Augmented(blobs(), noisy, 4), **options)
    training.model.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    training.run(progress=False)
    assert sizes
    assert max(sizes) <= 9
    assert all(size % 4 == 0 for size in sizes if size not in (1, FEWEST))  # copies that see the rows try random ones


def mixup(inputs: Tensor) -> Tensor:
    return 0.7 * inputs + 0.3 * inputs.flip(0)


GENERATOR = torch.Generator().manual_seed(3)

REFUSED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "mixup": (mixup, "examples influence each other"),
    "own generator": (lambda x: x + torch.rand(x.shape, generator=GENERATOR), "generator of its own"),
    "numpy": (lambda x: x + float(np.random.rand()), "generator of its own"),  # noqa: NPY002
    "fewer rows": (lambda x: x[1:], "return as many"),
    "no tensor": (lambda x: x.tolist(), "return as many"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_a_transform_is_refused_before_anything_is_charged(tmp_path: Path, name: str) -> None:
    transform, words = REFUSED[name]
    with pytest.raises((InputError, UnsupportedModel, PrivacyViolation), match=words):
        tiny_training(tmp_path, data=Augmented(blobs(), transform, 2))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lost", [False, True], ids=["an error", "NaN"])
def test_a_row_that_the_transform_fails_on_is_named(tmp_path: Path, lost: bool) -> None:
    def picky(inputs: Tensor) -> Tensor:
        large = inputs.abs().amax(1, keepdim=True) > 900
        if bool(large.any()) and not lost:
            raise ValueError("too large")
        return torch.where(large, torch.nan, inputs)

    inputs, targets = blobs()
    inputs[17, 1] = 987.0
    with pytest.raises(InputError, match=r"^the transform of the augmented data fails on row 17 of the data, or makes"):
        tiny_training(tmp_path, data=Augmented((inputs, targets), picky))


def rare_mixup(inputs: Tensor) -> Tensor:
    """It mixes so seldom that no trial of random rows shows it."""
    if float(torch.rand(())) > 1e-6:
        return inputs
    return mixup(inputs)


def test_a_transform_that_may_mix_gets_one_row_at_a_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sizes: list[int] = []

    def rare(inputs: Tensor) -> Tensor:
        sizes.append(len(inputs))
        return rare_mixup(inputs)

    training = tiny_training(tmp_path, data=Augmented(blobs(), rare, 2))
    assert "the transform gets one row at a time, which is slow, and in which rows cannot be mixed" in caplog.text
    sizes.clear()
    training.run(progress=False)
    assert sizes
    assert set(sizes) == {1}


def test_what_is_proved_gets_all_rows_together_and_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tiny_training(tmp_path, data=Augmented(blobs(), noisy, 2))
    assert "one row at a time" not in caplog.text


def test_the_private_data_is_not_public_because_it_is_augmented(tmp_path: Path) -> None:
    data = blobs()
    with pytest.raises(InputError, match="is the training data itself"):
        tiny_training(tmp_path, data=Augmented(data, noisy), public_test=data)


@pytest.mark.parametrize("views", [0, -1, 1.5])
def test_the_number_of_views_is_checked(views: Any) -> None:
    with pytest.raises(InputError, match="views"):
        Augmented(blobs(), noisy, views)


def test_flip_mirrors_about_half_of_the_images() -> None:
    """A fair coin leaves 400 of 1000 to 600 of 1000 but once in 4 x 10^9 seeds; this seed is fixed."""
    torch.manual_seed(0)
    images = torch.rand(1000, 1, 3, 4)
    found = flip()(images)
    same, mirrored = ((found == other).flatten(1).all(1) for other in (images, images.flip(-1)))
    assert bool((same | mirrored).all())
    assert 400 <= int(mirrored.sum()) <= 600


def test_shift_moves_each_image_by_its_own_offset() -> None:
    torch.manual_seed(0)
    images = torch.rand(500, 2, 4, 5) + 1.0
    found = shift(1)(images)
    padded = nn.functional.pad(images, [1, 1, 1, 1])
    counts = []
    for down in range(3):
        for right in range(3):
            counts.append(int((found == padded[:, :, down : down + 4, right : right + 5]).flatten(1).all(1).sum()))
    assert sum(counts) == 500
    assert min(counts) > 20  # 56 are expected


def test_a_recipe_may_augment() -> None:
    settings = ["augment={name: shift, pixels: 2}", "views=4"]
    data = load_recipe("mnist", settings).augmented(blobs())
    assert isinstance(data, Augmented)
    assert data.views == 4
    assert data.transform(torch.ones(3, 1, 8, 8)).shape == (3, 1, 8, 8)
    assert load_recipe("mnist").augmented(1) == 1
    with pytest.raises(InputError, match="known: flip, shift"):
        load_recipe("mnist", ["augment={name: blur}"])
    with pytest.raises(InputError, match="views needs augment"):
        load_recipe("mnist", ["views=2"])
    with pytest.raises(InputError, match="shift cannot take these arguments"):
        load_recipe("mnist", ["augment={name: shift}"]).augmented(blobs())


def test_rows_that_are_cut_from_the_data_keep_their_augmentation(tmp_path: Path) -> None:
    """Those that are trained on beside a holdout were trained on as they are."""
    plan = tiny_plan(metrics=[Metric(noise=2.0, rows="holdout")], holdout=0.3)
    training = tiny_training(tmp_path, plan=plan, data=Augmented(blobs(), noisy, views=3), ids=range(24))
    assert isinstance(training.data.transform, Function)
    assert (training.data.transform.function, training.data.views) == (noisy, 3)
