"""The page on Opacus: its example runs both ways, and what it says of Opacus is so. Opacus is only needed here."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import torch

opacus = pytest.importorskip("opacus", reason="opacus is not installed; it is in the extra dev")

PAGE = (Path(__file__).parents[2] / "docs" / "migrating-from-opacus.md").read_text()

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the blocks leave behind, Opacus's with a prefix."""
    names: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        for language, code in re.findall(r"^```(py|python)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
            exec(compile(code, "migrating-from-opacus.md", "exec"), names)
            if language == "py":
                kept = {f"opacus_{name}": names[name] for name in ("model", "epsilon", "engine", "loader")}
    return names | kept


def test_both_spend_the_same(both: dict[str, Any]) -> None:
    """Opacus's accountant is an implementation of its own; its error is 0.01 in epsilon."""
    guarantee = both["plan"].guarantee()
    assert guarantee.lower <= both["opacus_epsilon"] + 0.01
    assert guarantee.epsilon == pytest.approx(both["opacus_epsilon"], abs=0.02)
    assert f"{both['opacus_epsilon']:.4f}" in PAGE
    assert f"epsilon is {guarantee.epsilon:.4f} here" in PAGE
    ((_, sample_rate, steps),) = both["opacus_engine"].accountant.history
    assert (sample_rate, steps) == (pytest.approx(both["plan"].sampling.rate), both["plan"].steps)


def test_both_learn(both: dict[str, Any]) -> None:
    for model in (both["opacus_model"], both["trained"].model):
        model.eval()
        with torch.no_grad():
            right = (model(both["test_x"]).argmax(1) == both["test_y"]).float().mean()
        assert right > 0.75


def test_the_names_of_opacus_are_there() -> None:
    for where, name in (
        ("opacus", "PrivacyEngine"),
        ("opacus.utils.batch_memory_manager", "BatchMemoryManager"),
        ("opacus.validators", "ModuleValidator"),
        ("opacus.layers", "DPLSTM"),
        ("opacus.layers", "DPGRU"),
        ("opacus.layers", "DPMultiheadAttention"),
        ("opacus.distributed", "DifferentiallyPrivateDistributedDataParallel"),
    ):
        assert hasattr(importlib.import_module(where), name)
        assert name in PAGE
    for name in ("make_private", "make_private_with_epsilon", "get_epsilon", "save_checkpoint", "load_checkpoint"):
        assert hasattr(opacus.PrivacyEngine, name)
        assert name in PAGE


def test_an_empty_batch_reaches_the_loop_of_opacus() -> None:
    rows = torch.utils.data.TensorDataset(torch.zeros(20, 2), torch.zeros(20, dtype=torch.int64))
    model = torch.nn.Linear(2, 2)
    torch.manual_seed(0)
    *_, loader = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(rows, batch_size=1),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    assert 0 in {len(inputs) for inputs, _ in loader}  # of 20 batches a third has nobody in it


def test_secure_noise_needs_a_package() -> None:
    if importlib.util.find_spec("torchcsprng") is not None:
        pytest.skip("torchcsprng is installed")
    with pytest.raises(ImportError, match="torchcsprng"):
        opacus.PrivacyEngine(secure_mode=True)
