"""What CONTRIBUTING.md adds to each table works in plans, prices, commands, runs and pages."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"

AFTERWARDS = """
from discreet.accounting.account import guarantee
from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.core.events import Gaussian, Poisson, Repeat
from discreet.plan.clip_rules import CLIP_RULES
from discreet.publication import publish
from discreet.publication.certificate_schema import certificate_schema
from discreet.publication.pages.clipping_words import how_clipped
from discreet.publication.pages.sampling_words import how_drawn
from discreet.publication.pages.unit_words import ROW
from discreet.recipes.sections.private_metrics import RecipeMetric

facts = plan.model_dump(mode="json")
assert facts["sampling"] == {"kind": "coins"} and facts["clipping"]["kind"] == "halved", facts
assert Plan.model_validate(facts) == plan and Plan.model_validate(facts).fingerprint() == plan.fingerprint()
assert plan.first_steps(6) == Plan.poisson(
    population=40, batch=20, steps=6, delta=1e-5, clip_norm=1.0, noise_multiplier=2.0
).first_steps(6)
assert len(trained.bought) == 1 and trained.bought[0].metric == "training_sure"
assert RecipeMetric(kind="sure", noise=5.0).with_noise(5.0) == plan.metrics[0]
steps = Repeat(Poisson(0.5, Gaussian(2.0)), 6)
classic, improved = guarantee(steps, 1e-5, method="rdp-classic"), guarantee(steps, 1e-5, method="rdp")
assert classic.epsilon > improved.epsilon and classic.method == "rdp-classic"
assert how_drawn(facts["sampling"], 40, ROW, changes=False) == "In each step a coin is tossed for every row."
assert how_clipped(facts["clipping"], {"sensitivity": 1.0}).cell == "1, then half"
assert "CoinSampling" in certificate_schema()["$defs"] and "HalvedClipping" in certificate_schema()["$defs"]
assert run("epsilon --sampling coins --noise 2 --steps 6 --delta 1e-5".split()) == 0
try:
    publish(trained, "published")
except InputError as error:
    assert "no verifier knows halved clipping" in str(error)
else:
    raise AssertionError("published what no verifier knows")
for register, again in ((register, CoinSampling), (base.register, HalvedClipping)):
    try:
        register(again)
    except InputError as error:
        assert "already" in str(error)
    else:
        raise AssertionError("registered twice")
"""


def test_the_examples_run_and_work_everywhere(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    program = tmp_path / "added.py"
    program.write_text("".join(blocks) + AFTERWARDS)
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
