"""The base of both estimators: declared facts become a schema and a recipe, and a fit is a run of it."""

from __future__ import annotations

import logging
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from discreet.certificate.canonical import digest
from discreet.core.array_types import Array
from discreet.core.errors import InputError, Interrupted
from discreet.core.guarantee import Guarantee
from discreet.core.silence import attempted
from discreet.data.private.overlap import refuse_own_rows
from discreet.data.private.pairs import refuse_other_order
from discreet.data.tables import Encoder
from discreet.estimators.around import refuse_leaks
from discreet.estimators.checked import column_names, plain
from discreet.estimators.checked_settings import refuse_ill_typed
from discreet.estimators.declared import Bounds, facts_of, numeric_facts, pairs, refuse_undeclared, schema_of
from discreet.estimators.frame_rows import frame_rows
from discreet.estimators.given_rows import refuse_other_columns, refuse_unreadable
from discreet.plan.pydantic_base import validate
from discreet.prediction import spec_of_table
from discreet.publication import publish
from discreet.publication.certificate import certificate
from discreet.publication.publishing import as_file
from discreet.recipes import Recipe
from discreet.recipes.assemble import Ready, Run, carry_out, centered_training
from discreet.recipes.table_recipe import table_recipe
from discreet.training.run.run_folder import new_name

Rows = Any
"""An array of numbers (rows, columns), float64, or a table of Arrow with the declared columns."""

_AT_ONCE = 4096

logger = logging.getLogger("discreet")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """The base of private estimators; `PrivateClassifier` and `PrivateRegressor` define the target.

    | declared     | meaning                                               |
    |--------------|-------------------------------------------------------|
    | `epsilon`    | the privacy budget of one fit, for one unit           |
    | `delta`      | by default the power of ten below 1 / population      |
    | `population` | the public number of rows (of people, with `units`)   |
    | `bounds`     | the range of every column; values outside are clipped |
    | `columns`    | in its place, for frames with texts, dates or gaps: what each column may hold, as in a schema |

    By default batch, steps, the model (`hidden` layers), `clip_norm` and `learning_rate` follow from these, as for
    tables (`recipes.table_recipe`). `rows_per_unit`: the most rows of a person that a step uses, with `units` of
    `fit`. `seed`: of the initial weights, public; the noise has none. `engine`, `noise`: as in `EngineOptions`;
    `ledger`, `dataset_id` and `run_dir`, its `folder`: as in `RunOptions`.

    After `fit`: `guarantee_` and its `epsilon_`, `certificate_`, `trained_` (what `publish` takes), `plan_`.
    """

    epsilon: float | None = None
    delta: float | None = None
    population: float | None = None
    bounds: Bounds | None = None
    columns: Mapping[str, Any] | None = None
    hidden: tuple[int, ...] | None = None
    batch: float | None = None
    steps: int | None = None
    clip_norm: float | None = None
    learning_rate: float | None = None
    rows_per_unit: int = 1
    seed: int = 0
    engine: str = "auto"
    noise: str = "fast"
    ledger: str | None = None
    dataset_id: str = ""
    run_dir: str | None = None

    def fit(self, X: Any, y: Any, *, units: Any = None, public_test: tuple[Any, Any] | None = None) -> Self:
        """Train privately on rows `X` (rows, columns) with targets `y` (rows,). This is a charge.

        A regressor with several `target_bounds` takes `y` (rows, targets).

        Every call is a separate run with its own charge: two fits on the same rows cost both together. With `ledger`
        and `dataset_id` they share one budget, and a fit that exceeds it is refused.

        `units`: the person of each row; then all rows of a person are protected together, and `population` counts
        people. `public_test`: rows and targets declared public, on which metrics are shown and published.

        `InputError`, before anything is charged, for a missing declaration, rows that are not finite, an earlier
        pipeline step that learns from the rows, and everything that `Training` refuses.
        """
        refuse_leaks(self)
        ranges = {"bounds": self.bounds} if self.columns is None else {}
        facts = {"epsilon": self.epsilon, "population": self.population, **ranges, **self._declared()}
        refuse_undeclared(type(self).__name__, facts)
        refuse_ill_typed(self.get_params(deep=False))
        if units is None and self.rows_per_unit > 1:  # who says so expects that persons are protected, not rows
            raise InputError(
                f"rows_per_unit={self.rows_per_unit} is about persons, and nothing says which rows are whose; give "
                "fit(rows, targets, units=person), the person of each row, or leave rows_per_unit out to protect rows"
            )
        rows, target = self._checked(X, y)
        per_unit = None if units is None else self.rows_per_unit
        schema = schema_of(self._features(rows), self._targets(), self.population, per_unit)  # type: ignore[arg-type]
        encoder = Encoder(schema)
        recipe = self._recipe(schema)
        private = (self._inputs(encoder, rows), self._encoded(target))
        test = None if public_test is None else self._public(encoder, public_test, (X, y))
        ready = Ready(private, self._criterion(), test, units=units)
        if hasattr(self, "trained_"):
            logger.warning("this estimator was fitted before; what each fit is charged adds up (docs/estimators.md)")
        folder = Path(self.run_dir or new_name())
        training = centered_training(recipe, ready, Run(folder, ledger=self.ledger, dataset_id=self.dataset_id))
        try:
            trained = carry_out(recipe, training, progress=False)
        except Interrupted as stop:
            how = "what was charged stays charged; an estimator cannot go on, and another fit is another charge"
            raise Interrupted(stop.happened, stop.signal, how) from None
        self.trained_, self.plan_, self.guarantee_ = trained, trained.plan, trained.plan.guarantee()
        self._recipe_used, self._encoder, self._seen = recipe, encoder, _remembered(X)
        return self

    @property
    def epsilon_(self) -> float:
        """The certified epsilon of the last fit, at `guarantee_.delta`."""
        check_is_fitted(self, "trained_")
        return float(self.guarantee_.epsilon)

    @property
    def certificate_(self) -> dict[str, Any]:
        """The certificate of the last fit; `publish` writes it with the hashes of the other files."""
        check_is_fitted(self, "trained_")
        return certificate(self.trained_, self.guarantee_, digest(as_file(self.trained_.model.state_dict())))

    def publish(self, folder: str | Path) -> Guarantee:
        """Write the model with its certificate to a new `folder`; `discreet predict` and `discreet.load` read it.

        The key of the noise is destroyed then. The folder holds the declared facts of this estimator, and no rows.
        """
        check_is_fitted(self, "trained_")
        return publish(self.trained_, folder, spec_of_table(self._recipe_used, self._encoder))

    def _outputs(self, X: Any) -> Array:
        """Probabilities of the classes, or amounts in the unit of the target: (rows, outputs), float64."""
        check_is_fitted(self, "trained_")
        inputs = self._inputs(self._encoder, self._rows(X))
        model = self.trained_.model
        with torch.no_grad():
            parts = [model(part) for part in torch.split(inputs, _AT_ONCE)]
        return self._encoder.decode(torch.cat(parts).double().numpy())

    def _checked(self, X: Any, y: Any) -> tuple[Rows, npt.NDArray[Any]]:
        """Rows, as finite numbers where there are `bounds`, and one target for each."""
        if self.columns is not None and self.bounds is not None:
            raise InputError("give either bounds, for rows of numbers, or columns, for a frame")
        refuse_unreadable(X, "X", numbers=self.columns is None)
        refuse_other_order(X, y)
        y = self._readable(y)
        if self.columns is not None:
            rows = frame_rows(X, facts_of(self.columns))
            plain(lambda: validate_data(self, X, skip_check_array=True))
            target = self._checked_target(y)
            plain(lambda: check_consistent_length(rows, target))
            return rows, target
        several = self._targets_declared() > 1
        ways = {"y_numeric": self._numeric, "multi_output": several}
        kinds = {"labels": not self._numeric, "X": X, "y": y}
        rows, target = plain(lambda: validate_data(self, X, y, dtype=np.float64, **ways), **kinds)
        return rows, target if several else plain(lambda: column_or_1d(target, warn=True))

    def _readable(self, y: Any) -> Any:
        """Targets in their declared order. Labels of a list keep their types: NumPy would make texts of all of them."""
        refuse_unreadable(y, "y", numbers=self._numeric)
        if not self._numeric and isinstance(y, list | tuple):
            found = attempted(lambda: np.array(y, object))
            return y if found is None else found
        return self._in_order(y)

    def _checked_target(self, y: Any) -> npt.NDArray[Any]:
        """Targets (rows,), (rows, targets) of several, which are numbers or labels."""
        y, kind = self._readable(y), np.float64 if self._numeric else None
        given: dict[str, Any] = {"labels": not self._numeric, "y": y}
        target = plain(lambda: check_array(y, ensure_2d=False, dtype=kind, input_name="y"), **given)
        return target if self._targets_declared() > 1 else plain(lambda: column_or_1d(target, warn=True))

    def _targets_declared(self) -> int:
        """The number of targets of a row that are predicted; 1 for classes."""
        return 1

    def _in_order(self, y: Any) -> Any:
        """Targets with their columns in the declared order."""
        return y

    def _rows(self, X: Any) -> Rows:
        """New rows, like those of `fit`."""
        refuse_unreadable(X, "X", numbers=self.columns is None)
        if self.columns is None:
            refuse_other_columns(column_names(X), list(getattr(self, "feature_names_in_", ())))
            found: Rows = plain(lambda: validate_data(self, X, reset=False, dtype=np.float64), X=X)
            return found
        return frame_rows(X, facts_of(self.columns))

    def _features(self, rows: Rows) -> dict[str, Any]:
        """The columns of the rows as those of a schema."""
        if self.columns is not None:
            return facts_of(self.columns)
        names = getattr(self, "feature_names_in_", None)
        named = [f"x{place}" for place in range(rows.shape[1])] if names is None else list(names)
        return numeric_facts(named, pairs(self.bounds, named))  # type: ignore[arg-type]

    def _inputs(self, encoder: Encoder, rows: Rows) -> Tensor:
        """Rows clipped to their bounds and encoded for the model: (rows, columns), float32."""
        if not isinstance(rows, pa.Table):
            rows = pa.table([pa.array(column) for column in rows.T], list(encoder.schema.features))
        return torch.from_numpy(encoder.encode(rows, targets=False, show=False, in_memory=True).inputs)

    def _public(self, encoder: Encoder, given: Any, private: tuple[Any, Any]) -> tuple[Tensor, Tensor]:
        if not (isinstance(given, tuple | list) and len(given) == 2):
            raise InputError(f"public_test must be a pair (rows, targets), got {type(given).__name__}")
        refuse_own_rows("public_test", tuple(given), private)
        rows, target = self._rows(given[0]), self._checked_target(given[1])
        plain(lambda: check_consistent_length(rows, target))
        return self._inputs(encoder, rows), self._encoded(target)

    def _recipe(self, schema: Any) -> Recipe:
        facts = table_recipe(
            schema,
            self.epsilon,
            self.delta,
            batch=self.batch,
            steps=self.steps,
            hidden=self.hidden,
            clip_norm=self.clip_norm,
        )
        facts["model"]["seed"] = self.seed
        if self.learning_rate is not None:
            facts["optimizer"]["lr"] = self.learning_rate
        return validate(Recipe, facts | {"engine": self.engine, "noise": self.noise}, type(self).__name__)

    def __getstate__(self) -> dict[str, Any]:
        """The state without the reference to the rows of `fit`, which is never stored."""
        return {name: value for name, value in super().__getstate__().items() if name != "_seen"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # noise cannot be seeded
        tags.target_tags.required = True
        mixed = self.columns is not None
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = mixed
        return tags

    @property
    @abstractmethod
    def _numeric(self) -> bool:
        """Whether targets are numbers."""

    @abstractmethod
    def _declared(self) -> Mapping[str, object]:
        """Facts that have no default."""

    @abstractmethod
    def _targets(self) -> Mapping[str, Any]:
        """The columns of the targets for the schema, by name."""

    @abstractmethod
    def _encoded(self, target: npt.NDArray[Any]) -> Tensor:
        """Targets encoded for training."""

    @abstractmethod
    def _criterion(self) -> Any:
        """The loss."""


def _remembered(rows: Any) -> Any:
    """A weak reference to the rows, if they allow one."""
    try:
        return weakref.ref(rows)
    except TypeError:
        return None
