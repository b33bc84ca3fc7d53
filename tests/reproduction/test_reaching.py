"""What it costs to reach an accuracy, by hand."""

from discreet_papers.pages.reaching import first_step, price, reach_table
from discreet_papers.parts.trained.training import TrainingPart

SPENDING = [[10.0, 1.0], [40.0, 2.0], [100.0, 3.5]]
FOUND = [
    {"steps": 100, "epochs": 5.0, "spending": SPENDING, "curve": [[20, 0.5], [40, 0.7], [60, 0.9], [100, 0.8]]},
    {"steps": 100, "epochs": 5.0, "spending": SPENDING, "curve": [[20, 0.5], [40, 0.9], [60, 0.7], [100, 0.8]]},
]


class Fixed:
    def of(self, facts: object) -> list[object]:
        return list(enumerate(FOUND))


def test_the_mean_of_the_runs_counts_and_the_price_is_never_too_small() -> None:
    assert first_step(FOUND, 0.8) == 40.0
    assert first_step(FOUND[:1], 0.8) == 60.0
    assert first_step(FOUND, 0.81) is None
    assert [price(SPENDING, steps) for steps in (1, 10, 11, 40, 41, 100)] == [1.0, 1.0, 2.0, 2.0, 3.5, 3.5]


def test_the_table() -> None:
    part = TrainingPart.model_validate(
        {
            "kind": "training",
            "recipe": {},
            "seeds": 2,
            "spending": 3,
            "runs": [{"name": "one"}],
            "reach": [{"accuracy": 0.8, "printed": {"one": 1.1}}, {"accuracy": 0.9}],
        }
    )
    table = reach_table(part, Fixed())  # type: ignore[arg-type]
    assert table.rows == (("80", "1.1", "2", "2"), ("90", "-", "not reached", "-"))
