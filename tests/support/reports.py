"""Facts of a run for reports, and a parser that walks a page."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from discreet.core.events.event_json import to_json
from discreet.plan import Plan

HOSTILE = '</title><script>alert(\'x\')</script> " onload="y" $x_{1}$ {{ 7*7 }} `|'


VOID = {"meta", "br", "hr", "img", "link", "input"}


def small_plan(**changes: Any) -> Plan:
    figures_of_plan = {"population": 1437, "batch": 300, "steps": 40, "clip_norm": 1.0, "delta": 1e-4}
    return Plan.poisson(**(figures_of_plan | {"noise_multiplier": 4.0} | changes))


def facts_of(plan: Plan, evaluations: int = 4) -> dict[str, Any]:
    """What `certificate` would write about a run of `plan`, without training."""
    claim = plan.guarantee()
    return {
        "format": "discreet-certificate/1",
        "claim": {
            "kind": claim.kind,
            "epsilon": claim.epsilon,
            "lower": claim.lower,
            "delta": claim.delta,
            "adjacency": claim.adjacency.value,
            "unit": claim.unit.value,
            "method": claim.method,
        },
        "plan": plan.model_dump(mode="json"),
        "plan_fingerprint": plan.fingerprint(),
        "events": to_json(plan.event()),
        "clipping": {"rule": "the clip norm", "sensitivity": 1.0},
        "charged_steps": plan.steps,
        "ledger": {"digest": "cd" * 32, "entries": []},
        "mechanism": {
            "sampler": "poisson",
            "engine": "vmap",
            "noise": "fast",
            "grid_bits": 30,
            "randomness": "system",
        },
        "assumptions": ["Each row of the data set is one unit.", "Sums are computed in float64."],
        "model": {
            "file": "model.safetensors",
            "sha256": "ab" * 32,
            "private": ["head.weight"],
            "initial": {"head.weight": "01", "front.scale": "02"},
        },
        "bought_metrics": [],
        "ex_post": None,
        "public_evaluations": [
            {"step": 10 * i, "loss": 1.0 / i, "accuracy": 0.5 + 0.1 * i} for i in range(1, evaluations + 1)
        ],
        "software": {"discreet": "0.1.0", "python": "3.11.2"},
    }


class Walk(HTMLParser):
    """Checks that elements nest and close, and keeps what the tests ask for."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]
