"""How the noise of a run is shaped, as an experiment looks at it."""

from __future__ import annotations

from typing import Any

import pytest

from discreet_papers.part import Setting
from discreet_papers.parts.trained.scales import ScalesPart

RECIPE: dict[str, Any] = {
    "data": "digits",
    "model": {"name": "linear", "inputs": 64, "outputs": 10},
    "optimizer": {"name": "sgd", "lr": 0.01},
    "population": 1437,
    "rate": 0.5,
    "clip_norm": 3.0,
    "schedule": "uniform:initial=0.5",
    "delta": 1e-4,
    "engine": "bookkeeping",
}


@pytest.mark.parametrize(("geometry", "beta"), [({"name": "adadp", "beta": 1.3}, 1.3), (None, 1.0)])
def test_noise_is_as_large_as_that_of_the_clip_norm_and_small_where_gradients_are(geometry: Any, beta: float) -> None:
    """Squares of ellipsoid scales have the mean beta^2. Pixels of the digits without ink have no gradient."""
    recipe = RECIPE | ({} if geometry is None else {"geometry": geometry})
    part = ScalesPart.model_validate({"kind": "scales", "recipe": recipe, "at": [3, 8]})
    (cell,) = part.cells(None)
    assert cell.facts["recipe"]["steps"] == 8
    found = part.measure(cell, Setting())
    assert [look["step"] for look in found["looks"]] == [3, 8]
    for look in found["looks"]:
        assert look["rms_noise"] == pytest.approx(0.5 * 3.0 * beta / (0.5 * 1437), rel=1e-6)
        assert look["noise"] == sorted(look["noise"])
        assert look["gradient"][0] == 0.0
        if geometry is None:
            assert look["rank_correlation"] is None
            assert set(look["noise"]) == {1.0}
        else:
            assert look["rank_correlation"] > 0.3
