"""Train a neural network on people's data, publish it, and prove what it gives away.

Names are loaded on first use (PEP 562), so that accounting never waits for torch.
"""

from importlib import import_module
from sys import modules
from typing import TYPE_CHECKING, Any
from warnings import warn

from discreet._version import __version__ as __version__

if TYPE_CHECKING:
    from discreet.accounting.account import guarantee as guarantee
    from discreet.accounting.answers.calibrate import calibrate_noise as calibrate_noise
    from discreet.accounting.answers.event_tradeoff import trade_off as trade_off
    from discreet.certificate import ModelSpec as ModelSpec
    from discreet.clipping import replace_batch_norm as replace_batch_norm
    from discreet.core.adjacency import Adjacency as Adjacency
    from discreet.core.adjacency import Unit as Unit
    from discreet.core.errors import BudgetExhausted as BudgetExhausted
    from discreet.core.errors import DiscreetError as DiscreetError
    from discreet.core.errors import InputError as InputError
    from discreet.core.errors import NotProved as NotProved
    from discreet.core.errors import PrivacyViolation as PrivacyViolation
    from discreet.core.errors import UnsupportedModel as UnsupportedModel
    from discreet.core.errors import VerificationFailed as VerificationFailed
    from discreet.core.events import Gaussian as Gaussian
    from discreet.core.events import Poisson as Poisson
    from discreet.core.events import Repeat as Repeat
    from discreet.core.guarantee import Estimate as Estimate
    from discreet.core.guarantee import Guarantee as Guarantee
    from discreet.data import Augmented as Augmented
    from discreet.data import Columns as Columns
    from discreet.estimators import PrivateClassifier as PrivateClassifier
    from discreet.estimators import PrivateRegressor as PrivateRegressor
    from discreet.plan import AdaptivePlan as AdaptivePlan
    from discreet.plan import Plan as Plan
    from discreet.prediction import load as load
    from discreet.publication import publish as publish
    from discreet.publication import verify as verify
    from discreet.training import EarlyStopping as EarlyStopping
    from discreet.training import EngineOptions as EngineOptions
    from discreet.training import PublicData as PublicData
    from discreet.training import RunOptions as RunOptions
    from discreet.training import Setup as Setup
    from discreet.training import Training as Training
    from discreet.training import Tuning as Tuning

_HOMES = {
    "AdaptivePlan": "plan",
    "Adjacency": "core.adjacency",
    "Augmented": "data",
    "BudgetExhausted": "core.errors",
    "Columns": "data",
    "DiscreetError": "core.errors",
    "EarlyStopping": "training",
    "EngineOptions": "training",
    "Estimate": "core.guarantee",
    "Gaussian": "core.events",
    "Guarantee": "core.guarantee",
    "InputError": "core.errors",
    "ModelSpec": "certificate",
    "NotProved": "core.errors",
    "Plan": "plan",
    "Poisson": "core.events",
    "PrivacyViolation": "core.errors",
    "PrivateClassifier": "estimators",
    "PrivateRegressor": "estimators",
    "PublicData": "training",
    "Repeat": "core.events",
    "RunOptions": "training",
    "Setup": "training",
    "Training": "training",
    "Tuning": "training",
    "Unit": "core.adjacency",
    "UnsupportedModel": "core.errors",
    "VerificationFailed": "core.errors",
    "calibrate_noise": "accounting.answers.calibrate",
    "guarantee": "accounting.account",
    "load": "prediction",
    "publish": "publication",
    "replace_batch_norm": "clipping",
    "trade_off": "accounting.answers.event_tradeoff",
    "verify": "publication",
}

_MOVED = {
    "Allocation": "accounting",
    "Compose": "accounting",
    "Counts": "plan",
    "Epoch": "accounting",
    "Event": "accounting",
    "ExPost": "accounting",
    "FixedSize": "accounting",
    "History": "plan",
    "Knobs": "plan",
    "Laplace": "accounting",
    "LedgerError": "core.errors",
    "Method": "accounting",
    "PartsSearch": "plan",
    "Predictor": "prediction",
    "Published": "accounting",
    "RandomnessReuse": "core.errors",
    "Search": "plan",
    "Trained": "training",
    "TruncatedPoisson": "accounting",
    "Verification": "verification",
    "account": "accounting.account",
    "delta_at": "accounting",
    "export_onnx": "prediction",
    "group_guarantee": "accounting",
}
"""Names of version 0.1 that are imported from their rooms now."""

_ROOMS = (
    *("accounting", "audit", "clipping", "data", "features", "language", "ledger", "methods", "plan", "queries"),
    *("prediction", "randomness", "recipes", "sampling", "testing", "training"),
)
"""Rooms that `import discreet` gives by attribute: discreet.methods."""

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """The public name, from its home."""
    if name in _MOVED:
        room, now = f"discreet.{_MOVED[name]}", "Controls" if name == "Knobs" else name
        warn(f"discreet.{name} is {room}.{now} now", DeprecationWarning, stacklevel=2)
        return getattr(import_module(room), now)
    if name in _ROOMS:
        return _loaded(name, f"discreet.{name}")
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=modules[__name__])  # Python says what may be meant
    value = getattr(_loaded(name, f"discreet.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def _loaded(name: str, module: str) -> Any:
    """The module that has a public name; `ModuleNotFoundError` says what to install if it needs what is not here."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        from discreet.core.imports.extras import needs_whole

        said = needs_whole(error)
        if said is None:
            raise
        raise ModuleNotFoundError(f"discreet.{name} {said}", name=error.name) from None


def __dir__() -> list[str]:
    return sorted(__all__)
