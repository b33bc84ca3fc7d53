"""Train a neural network on people's data, publish it, and prove what it gives away.

Names are loaded on first use (PEP 562), so that accounting never waits for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.accounting.account import Method, account, guarantee
    from discreet.accounting.answers.calibrate import calibrate_noise
    from discreet.accounting.answers.profile import delta_at, group_guarantee
    from discreet.accounting.answers.tradeoff import trade_off
    from discreet.certificate import ModelSpec
    from discreet.clipping import replace_batch_norm
    from discreet.core.adjacency import Adjacency, Unit
    from discreet.core.errors import (
        BudgetExhausted,
        DiscreetError,
        InputError,
        LedgerError,
        NotProved,
        PrivacyViolation,
        RandomnessReuse,
        UnsupportedModel,
        VerificationFailed,
    )
    from discreet.core.events import (
        Allocation,
        Compose,
        Epoch,
        Event,
        FixedSize,
        Gaussian,
        Laplace,
        Poisson,
        Repeat,
        TruncatedPoisson,
    )
    from discreet.core.guarantee import Estimate, ExPost, Guarantee, Published
    from discreet.data import Augmented, Columns
    from discreet.estimators import PrivateClassifier, PrivateRegressor
    from discreet.plan import AdaptivePlan, Counts, History, Knobs, PartsSearch, Plan, Search
    from discreet.prediction import Predictor, export_onnx, load
    from discreet.publication import publish, verify
    from discreet.training import EarlyStopping, EngineOptions, Setup, Trained, Training, Tuning
    from discreet.verification import Verification

_HOMES = {
    "AdaptivePlan": "plan",
    "Adjacency": "core.adjacency",
    "Augmented": "data",
    "BudgetExhausted": "core.errors",
    "Columns": "data",
    "Compose": "core.events",
    "Counts": "plan",
    "DiscreetError": "core.errors",
    "EarlyStopping": "training",
    "EngineOptions": "training",
    "Estimate": "core.guarantee",
    "Event": "core.events",
    "ExPost": "core.guarantee",
    "Gaussian": "core.events",
    "Guarantee": "core.guarantee",
    "History": "plan",
    "InputError": "core.errors",
    "Knobs": "plan",
    "Laplace": "core.events",
    "LedgerError": "core.errors",
    "Method": "accounting.account",
    "ModelSpec": "certificate",
    "NotProved": "core.errors",
    "PartsSearch": "plan",
    "Plan": "plan",
    "Poisson": "core.events",
    "TruncatedPoisson": "core.events",
    "FixedSize": "core.events",
    "Epoch": "core.events",
    "Allocation": "core.events",
    "Predictor": "prediction",
    "PrivacyViolation": "core.errors",
    "PrivateClassifier": "estimators",
    "PrivateRegressor": "estimators",
    "Published": "core.guarantee",
    "RandomnessReuse": "core.errors",
    "Repeat": "core.events",
    "Search": "plan",
    "Setup": "training",
    "Trained": "training",
    "Training": "training",
    "Tuning": "training",
    "Unit": "core.adjacency",
    "UnsupportedModel": "core.errors",
    "Verification": "verification",
    "VerificationFailed": "core.errors",
    "account": "accounting.account",
    "calibrate_noise": "accounting.answers.calibrate",
    "delta_at": "accounting.answers.profile",
    "export_onnx": "prediction",
    "group_guarantee": "accounting.answers.profile",
    "guarantee": "accounting.account",
    "load": "prediction",
    "publish": "publication",
    "replace_batch_norm": "clipping",
    "trade_off": "accounting.answers.tradeoff",
    "verify": "publication",
}

__all__ = [
    "AdaptivePlan",
    "Adjacency",
    "Allocation",
    "Augmented",
    "BudgetExhausted",
    "Columns",
    "Compose",
    "Counts",
    "DiscreetError",
    "EarlyStopping",
    "EngineOptions",
    "Epoch",
    "Estimate",
    "Event",
    "ExPost",
    "FixedSize",
    "Gaussian",
    "Guarantee",
    "History",
    "InputError",
    "Knobs",
    "Laplace",
    "LedgerError",
    "Method",
    "ModelSpec",
    "NotProved",
    "PartsSearch",
    "Plan",
    "Poisson",
    "Predictor",
    "PrivacyViolation",
    "PrivateClassifier",
    "PrivateRegressor",
    "Published",
    "RandomnessReuse",
    "Repeat",
    "Search",
    "Setup",
    "Trained",
    "Training",
    "TruncatedPoisson",
    "Tuning",
    "Unit",
    "UnsupportedModel",
    "Verification",
    "VerificationFailed",
    "account",
    "calibrate_noise",
    "delta_at",
    "export_onnx",
    "group_guarantee",
    "guarantee",
    "load",
    "publish",
    "replace_batch_norm",
    "trade_off",
    "verify",
]


def __getattr__(name: str) -> Any:
    """The public name, from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"discreet.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
