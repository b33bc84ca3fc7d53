"""What `discreet train` was asked to do, remembered in the run folder so that it can go on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from discreet.core.errors import InputError
from discreet.core.guarantee import Guarantee
from discreet.plan.validation import validate
from discreet.prediction import spec_of
from discreet.publication.folder import check_target, publish
from discreet.recipes import Recipe, load_recipe
from discreet.recipes.assemble import assemble, carry_out
from discreet.training import Trained

_FILE = "job.json"


@dataclass(frozen=True, slots=True)
class Job:
    """A recipe with its data, the folder to publish to, and the folder of the run."""

    recipe: Recipe
    data: Path | None
    target: Path
    folder: Path
    resume: bool

    @classmethod
    def new(
        cls, name: str, data: Path | None, out: Path | None, settings: Sequence[str], overrides: Mapping[str, object]
    ) -> Job:
        """A job from the options of the command line."""
        recipe = load_recipe(name, settings, overrides)
        target = out or Path(f"{Path(name).stem}-private")
        check_target(target)
        return cls(recipe, data, target, target.with_name(target.name + ".run"), resume=False)

    @classmethod
    def resumed(cls, folder: Path) -> Job:
        """The job whose run is in `folder` (or in the run folder beside the target `folder`)."""
        if not (folder / _FILE).is_file() and folder.with_name(folder.name + ".run").is_dir():
            folder = folder.with_name(folder.name + ".run")
        try:
            facts = json.loads((folder / _FILE).read_text())
            recipe, target = facts["recipe"], Path(facts["target"])
            data = None if facts["data"] is None else Path(facts["data"])
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{folder} is not the folder of a run of `discreet train`; name OUT.run") from None
        check_target(target)
        return cls(validate(Recipe, recipe, str(folder / _FILE)), data, target, folder, resume=True)

    def run(self, *, ledger: str | None, dataset_id: str, finish: bool) -> tuple[Guarantee, Trained]:
        """Train (unless `finish`), publish, and return the guarantee with the run."""
        split = self.recipe.load_data(self.data)
        training = assemble(
            self.recipe,
            split,
            self.folder,
            resume=self.resume,
            ledger=ledger,
            dataset_id=dataset_id,
            on_open=self._remember,
        )
        if finish:
            with training.session() as session:
                trained = training.result(session)
        else:
            trained = carry_out(self.recipe, training)
        return publish(trained, self.target, spec_of(self.recipe, split)), trained

    def _remember(self) -> None:
        facts = {
            "recipe": self.recipe.model_dump(mode="json"),
            "data": None if self.data is None else str(self.data.resolve()),
            "target": str(self.target.resolve()),
        }
        (self.folder / _FILE).write_text(json.dumps(facts, indent=2) + "\n")
