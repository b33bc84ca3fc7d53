"""One plan of three thousand steps at eighteen digits, by mpmath: makes inversion.json. Independent of the library.

python tests/accounting/reference/inversion.py      (half a minute)

With L the loss of all steps under P, and a > 0,

    delta(eps) = E[(1 - exp(eps - L))_+]
               = 1 / (2 pi) x integral over t of E[exp(z L)] exp(-z eps) / (z (z + 1)), z = a + it

(the Laplace transform of 1 - exp(-u), u > 0, is 1 / (z (z + 1))). E[exp(z L)] of a step is an integral of an analytic
function of the outcome that falls off as a Gaussian, so sums over equal steps converge geometrically: in the outcome,
and in t as well. Both directions; the larger counts. Other steps and another a confirm the value within 1e-18.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath as mp

DATA = Path(__file__).parent / "inversion.json"
RATE, NOISE, STEPS, DELTA = "0.004", "1.3", 3000, "1e-10"
DIGITS = 30


class Line:
    """E[exp(z L)] of all steps on the line of real part `a`, at multiples of `step`, until it is below 1e-25."""

    def __init__(self, a: int, step: mp.mpf, width: mp.mpf, *, removal: bool) -> None:
        q, s, side = mp.mpf(RATE), mp.mpf(NOISE), 1 if removal else -1
        reach = 12 * s
        low, high = (-reach, 1 + reach + a) if removal else (-reach - 1, reach)
        count = math.ceil((high - low) / width)
        nodes = [low + width * k for k in range(count + 1)]
        losses = [mp.log(1 - q + q * mp.exp((2 * x - 1) / (2 * s * s))) for x in nodes]
        densities = [mp.exp(-x * x / (2 * s * s)) / (s * mp.sqrt(2 * mp.pi)) * width for x in nodes]
        tilt = a + 1 if removal else -a  # under P, whose density has a factor of exp(loss)
        weights = [one * mp.exp(tilt * loss) for one, loss in zip(densities, losses, strict=True)]
        self.a, self.step, self.values = a, step, []
        turns = [mp.expj(side * step * loss) for loss in losses]
        factors = list(map(mp.mpc, weights))
        while True:
            value = mp.fsum(factors) ** STEPS
            self.values.append(value)
            if abs(value) < abs(self.values[0]) * mp.mpf("1e-25"):
                return
            factors = [one * turn for one, turn in zip(factors, turns, strict=True)]

    def delta(self, epsilon: mp.mpf) -> mp.mpf:
        """The integral, as a sum; the other half of the line is the conjugate."""
        total = mp.mpf(0)
        for k, value in enumerate(self.values):
            z = mp.mpc(self.a, k * self.step)
            total += (1 if k == 0 else 2) * (value * mp.exp(-z * epsilon) / (z * (z + 1))).real
        return total * self.step / (2 * mp.pi)

    def epsilon(self) -> mp.mpf:
        """Where this direction has the delta of the plan."""
        return mp.findroot(lambda epsilon: mp.log(self.delta(epsilon) / mp.mpf(DELTA)), (mp.mpf(1), mp.mpf("1.3")))


def epsilon(a: int, step: str, width: str) -> mp.mpf:
    """The epsilon of the worse direction."""
    found = []
    for removal in (True, False):
        line = Line(a, mp.mpf(step), mp.mpf(width), removal=removal)
        found.append(line.epsilon())
    return max(found)


def main() -> None:
    """Write the value, if both ways agree."""
    mp.mp.dps = DIGITS
    first, second = epsilon(10, "0.15", "0.05"), epsilon(12, "0.11", "0.04")
    assert abs(first - second) < mp.mpf("1e-18"), (first, second)
    facts = {"rate": float(RATE), "noise": float(NOISE), "steps": STEPS, "delta": float(DELTA)}
    DATA.write_text(json.dumps(facts | {"epsilon": mp.nstr(first, 19)}) + "\n")


if __name__ == "__main__":
    main()
