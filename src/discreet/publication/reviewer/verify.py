"""Does the certificate of a published model support its claim?        python verify.py FOLDER [--key PUBLIC_KEY]

For a reviewer: to be read in a sitting. It needs NumPy and the standard library, uses nothing of the library that wrote
the folder, and recomputes epsilon from the certificate's events. Take a copy from somewhere else than the folder: a
forger could send his own. PUBLIC_KEY: whose signature it must have, as 64 hexadecimal digits.
It ends with ACCEPTED (exit code 0), REJECTED or NOT COVERED (1): not every theorem fits into 400 lines, and the rest is
for `discreet verify`. What no verifier can know is whether training did what the events say.
"""
# fmt: off

from __future__ import annotations

import hashlib
import itertools
import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

Facts = dict[str, Any]
Array = np.ndarray[Any, np.dtype[np.float64]]
Events = Counter[bytes]  # events in canonical form, and how many there were
Parts = dict[tuple[float, float], int]  # (chance to take part, shift in noise deviations): in how many steps
Losses = list[tuple[int, Array, float, int]]  # first grid index, masses, mass at infinity, in how many steps

class Stop(Exception):
    """The verdict, and why: REJECTED, or NOT COVERED where the claim may stand but this file cannot tell."""

def need(holds: bool, why: str, verdict: str = "REJECTED") -> None:
    if not holds:
        raise Stop(verdict, why)

# 1. READING: one meaning for every reader, and exactly the fields of the format.
def table(text: str) -> dict[str, set[str]]:
    return {name: set(fields) for name, *fields in map(str.split, text.split(";"))}

SECTIONS = table(
    "certificate format claim plan plan_fingerprint events clipping charged_steps ex_post search ledger mechanism "
    "assumptions model public_evaluations bought_metrics software files; claim kind epsilon lower delta adjacency unit "
    "method; ledger entries digest head; mechanism sampler engine float_bits noise randomness grid_bits; "
    "model file sha256 private initial; plan adjacency unit rows_per_unit sampling population clipping noise rates "
    "metrics before holdout odometer search delta block initial_state")
EVENTS = table("gaussian noise_multiplier query; poisson rate of; fixed_size population batch of; epoch of; "
    "allocation steps chosen of; sparse_histogram noise_multiplier threshold; repeat count of; compose of")
RATIO = {"clipped_sum": 2.0, "centred_bit": 2.0, "loss": 2.0, "covariance": 2**0.5, "histogram": 2**0.5, "count": 1.0}

def strict(text: bytes) -> Any:
    def once(given: Any) -> Any:
        return dict(given) if len(dict(given)) == len(given) else need(False, "a key is in the file twice")
    return json.loads(text, object_pairs_hook=once, parse_constant=lambda name: need(False, f"{name} is no number"))

def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

def positive(value: Any, most: float = sys.float_info.max) -> float:
    need(type(value) in (int, float) and 0 < value <= most, f"{str(value)[:40]} is out of range")
    return float(value)

def whole(value: Any) -> int:
    need(type(value) is int and 1 <= value <= 10**9, f"{str(value)[:40]} is no count")
    return int(value)

def check_fields(facts: Facts) -> None:
    claim, plan, mechanism = facts["claim"], facts["plan"], facts["mechanism"]
    need(facts["format"] == "discreet-certificate/1", "another format", "NOT COVERED")
    need(claim["kind"] == "guarantee", "an estimate, or what was read after the run, is no guarantee")
    need(plan.get("kind") != "adaptive", "a run that was chosen on the way, under a filter", "NOT COVERED")
    need((facts["ex_post"], plan["odometer"]) == (None, None), "a statement of an odometer", "NOT COVERED")
    need((facts["search"], plan["search"]) == (None, None), "a search for settings", "NOT COVERED")
    for name, part in (facts | {"certificate": set(facts) - {"public_batches"}}).items():
        need(name not in SECTIONS or set(part) == SECTIONS[name], f"{name}: other fields than its format")
    need(claim["method"] in ("pld", "rdp", "gaussian"), "the theorem is not one for a plan that was fixed beforehand")
    need(all(claim[name] == plan[name] for name in ("delta", "adjacency", "unit")), "claim and plan differ")
    need(claim["unit"] == "user" or (claim["unit"], plan["rows_per_unit"]) == ("example", 1), "whose rows?")
    need(type(claim["epsilon"]) in (int, float) and 0 <= claim["epsilon"] < 700, "epsilon is no finite number")
    need(positive(claim["delta"], 0.999) > 1e-18, "a delta too small for double precision", "NOT COVERED")
    need(facts["plan_fingerprint"] == "sha256:" + sha(canonical(plan)), "the fingerprint is not the plan's")
    need(mechanism["randomness"] == "system", "the noise can be repeated: it is not from the operating system")
    need(mechanism["noise"] in ("fast", "exact") and mechanism["grid_bits"] in range(20, 51), "unknown kind of noise")
    need(mechanism["sampler"] == plan["sampling"]["kind"], "the sampler is not the plan's")
    rows = facts.get("public_batches", {"weight": 0.5, "rows": 1, "batch": 1, "sha256": "0" * 64})  # optional
    need(set(rows) == {"weight", "rows", "batch", "sha256"} and len(bytes.fromhex(rows["sha256"])) == 32, "what rows?")
    need(positive(rows["weight"]) < 1 and whole(rows["batch"]) <= whole(rows["rows"]), "no such public rows")

# 2. HASHES: model, files and ledger are those that the certificate is about.
def check_files(facts: Facts, folder: Path) -> None:
    """The files are the published ones; whatever was not trained is as declared before training."""
    model, content = facts["model"], (folder / "model.safetensors").read_bytes()
    need(sha(content) == model["sha256"], "the model is not the certified one")
    need({"model.json", "plan.yaml", "report.html", "README.md"} <= set(facts["files"]), "a file has no hash")
    for name, digest in facts["files"].items():
        need("/" not in name and sha((folder / name).read_bytes()) == digest, f"{name[:80]} was changed")
    start = 8 + int.from_bytes(content[:8], "little")
    header = {name: entry for name, entry in strict(content[8:start]).items() if name != "__metadata__"}
    need(set(header) == set(model["initial"]), "model and certificate have other tensors")
    for name in set(header) - set(model["private"]):
        begin, end = header[name]["data_offsets"]
        described = f"{header[name]['dtype']}{[int(size) for size in header[name]['shape']]}".encode()
        same = sha(described + content[start + begin : start + end]) == model["initial"][name]
        need(same, f"tensor {name[:80]!r} was not trained, and is not as declared")
    state = sha("\n".join(f"{name} {model['initial'][name]}" for name in sorted(header)).encode())
    need(facts["plan"]["initial_state"] == f"sha256:{state}", "the plan declares another initial state")

def check_ledger(facts: Facts) -> Events:
    """The record is whole, of one run, with this claim. Returns what was charged."""
    record, claim, mechanism = facts["ledger"]["entries"], facts["claim"], facts["mechanism"]
    need(facts["ledger"]["digest"] == sha(canonical(record)), "the ledger's entries are not those that were sealed")
    need([entry["kind"] == "run" for entry in record] == [True] + [False] * (len(record) - 1), "not one run")
    opened, charged, position = record[0]["body"], Events(), 0
    need(opened["plan"] == facts["plan_fingerprint"], "the ledger is of another plan")
    need(all(opened[name] == claim[name] for name in ("epsilon", "delta", "adjacency", "unit")), "another claim")
    wanted = {name: mechanism[name] for name in ("engine", "float_bits", "noise", "randomness")}
    asked = {"engine": "queries", "noise": wanted["noise"], "randomness": "system"}
    started = [entry["body"] for entry in record if entry["kind"] == "attempt"]
    need(wanted in started and all(one in (wanted, asked) for one in started), "another engine, noise or randomness")
    for entry in record:
        if entry["kind"] == "reservation":
            need(entry["position"] == position, "a block of steps is missing, or stands in another place")
            position += whole(entry["steps"])
            charged += multiset(entry["body"])
    need(0 < position == facts["charged_steps"], "another number of steps was charged")
    return charged

def check_signature(folder: Path, facts: Facts, key: str | None) -> str:
    if not (folder / "signature.json").exists():
        need(key is None, "it is not signed")
        return "It is not signed."
    stated = strict((folder / "signature.json").read_bytes())
    signature = bytes.fromhex(stated.pop("signature"))
    need((stated["format"], stated["algorithm"]) == ("discreet-signature/1", "Ed25519"), "another kind of signature")
    need(stated["certificate"] == sha(canonical(facts)), "the signature is of another certificate")
    need(set(stated["files"]) >= {*facts["files"], "model.safetensors"}, "the signature leaves files out")
    for name, digest in stated["files"].items():
        need("/" not in name and sha((folder / name).read_bytes()) == digest, f"{name[:80]} is not what was signed")
    need(ed25519(bytes.fromhex(stated["public_key"]), canonical(stated), signature), "the signature is not by its key")
    need(key is None or key.lower() == stated["public_key"], "it is signed by somebody else")
    return f"It is signed by {stated['public_key']}" + ("." if key else "; you did not say whose key to expect.")

def ed25519(public: bytes, message: bytes, signature: bytes) -> bool:
    """RFC 8032, section 5.1.7, in affine coordinates."""
    p, q = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
    d = -121665 * pow(121666, -1, p) % p
    def add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        (a, b), (x, y) = one, other
        k = d * a * b * x * y
        return (a * y + b * x) * pow(1 + k, -1, p) % p, (b * y + a * x) * pow(1 - k, -1, p) % p
    def times(n: int, one: tuple[int, int]) -> tuple[int, int]:
        half = times(n // 2, add(one, one)) if n else (0, 1)
        return add(half, one) if n % 2 else half
    def point(text: bytes) -> tuple[int, int]:
        y, odd = int.from_bytes(text, "little") % 2**255, text[31] >> 7
        square = (y * y - 1) * pow(d * y * y + 1, -1, p) % p
        x = pow(square, (p + 3) // 8, p)
        x = x if (x * x - square) % p == 0 else x * pow(2, (p - 1) // 4, p) % p
        need(y < p and (x * x - square) % p == 0 and len(text) == 32, "no point of the curve")
        return (x if x % 2 == odd else p - x), y
    s, base = int.from_bytes(signature[32:], "little"), point(bytes([0x58]) + bytes([0x66]) * 31)
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % q
    return len(signature) == 64 and s < q and times(s, base) == add(point(signature[:32]), times(h, point(public)))

# 3. EVENTS: what was released, and what the plan says would be.
def leaves(event: Any, times: int = 1) -> Any:
    """The events inside compositions and repetitions, each with its count."""
    name = event["event"]
    need(name in EVENTS, f"an event {str(name)[:40]}", "NOT COVERED")
    need(set(event) == EVENTS[name] | {"event"}, f"an event {name} has other fields than it should")
    if name == "compose":
        for part in event["of"]:
            yield from leaves(part, times)
    elif name == "repeat":
        yield from leaves(event["of"], times * whole(event["count"]))
    else:
        yield event, times

def multiset(event: Any) -> Events:
    found = Events()
    for leaf, count in leaves(event):
        found[canonical(leaf)] += count
    return found

def planned(plan: Facts) -> list[Events]:
    """What a fixed plan releases, from either part of the data if rows are held out; the last is all of it."""
    sampling, people, steps, held = plan["sampling"], plan["population"], Events(), Events()
    noise = [phase["multiplier"] for phase in plan["noise"] for _ in range(whole(phase["steps"]))]
    rates = [phase["rate"] for phase in plan["rates"] for _ in range(whole(phase["steps"]))]
    kind = "epoch" if sampling["kind"] == "shuffle" else sampling["kind"]
    need(not rates or (kind == "poisson" and len(rates) == len(noise)), "rates that change do not cover the steps")
    length = math.ceil(people / sampling["batch"]) if kind == "epoch" else sampling.get("period", 1)
    need(len(noise) % whole(length) == 0, "the steps are no multiple of an epoch or period")
    need(kind in ("poisson", "fixed_size", "epoch", "allocation", "none"), f"{str(kind)[:40]} sampling", "NOT COVERED")
    need(kind in ("poisson", "none") or people == int(people), "the population is no whole number")
    known = sampling | {"population": int(people), "steps": length}
    for at in range(0, len(noise), length):
        period = [{"event": "gaussian", "noise_multiplier": one, "query": "clipped_sum"} for one in noise[at:][:length]]
        alike = [{"event": "repeat", "count": len(list(same)), "of": one} for one, same in itertools.groupby(period)]
        need(kind != "allocation" or len(alike) == 1, "the noise changes inside a period")
        known["of"] = {"event": "compose", "of": alike} if kind == "epoch" and length > 1 else period[0]
        known |= {"rate": rates[at]} if rates else {}
        drawn = {"event": kind} | {name: known[name] for name in EVENTS.get(kind, ())}
        steps[canonical(period[0] if kind == "none" else drawn)] += 1
    for metric in plan["metrics"]:
        times = 1 if metric["every"] is None else len(noise) // whole(metric["every"])
        (held if metric["rows"] == "holdout" else steps)[metric_event(metric)] += times
    need((plan["holdout"] is not None) == bool(held), "rows are held out exactly where a metric is on them")
    first = Events(canonical(event) for event in plan["before"])  # nobody is on both sides; a replaced row may change
    apart = [steps + first, held + first] if held and plan["adjacency"] != "replace_one" else []
    return [*apart, steps + held + first]

def metric_event(metric: Facts) -> bytes:
    query = {"accuracy": "centred_bit", "loss": "loss", "size": "count"}[metric["kind"]]
    one = {"event": "gaussian", "noise_multiplier": float(metric["noise"]), "query": query}
    return canonical(one if metric["rate"] is None else {"event": "poisson", "rate": metric["rate"], "of": one})

def check_shown(facts: Facts, events: Events) -> None:
    """Metrics that are shown were bought, and noise is relative to the sensitivity that clipping gives."""
    bought = {f"{one['rows']}_{one['kind']}": metric_event(one) for one in facts["plan"]["metrics"]}
    need(Events(bought.get(one["metric"], b"") for one in facts["bought_metrics"]) <= events, "a metric is unpaid")
    spec = facts["plan"]["clipping"]
    need(spec["kind"] in ("flat", "automatic", "ellipsoid"), f"{str(spec['kind'])[:40]} clipping", "NOT COVERED")
    need(facts["clipping"]["sensitivity"] == positive(spec["norm"]), "the sensitivity is not the clip norm")

# 4. WHAT A STEP COSTS: the theorem for each sampler, and the privacy loss of one step on a grid.
def parts_of(events: Events, adjacency: str) -> tuple[Parts, float]:
    """Steps as (chance to take part, shift), and what they cost of delta."""
    need(adjacency in ("add_remove", "zero_out", "replace_one"), "nobody knows these neighbours")
    replaced, escapes, found = adjacency == "replace_one", 0.0, Counter[tuple[float, float]]()
    def shift(inner: Any) -> float:
        """Gaussian queries on one draw move together, by the root of the sum of squares."""
        square = 0.0
        for one, count in leaves(inner):
            need(one["event"] == "gaussian", "a draw inside a draw")
            square += count * ((RATIO[one["query"]] if replaced else 1.0) / positive(one["noise_multiplier"])) ** 2
        return math.sqrt(square) * (1 + 1e-14)
    for text, count in events.items():
        event, rate, times = json.loads(text), 1.0, 1
        name, inner = event["event"], event.get("of", event)
        if name == "poisson":
            need(not replaced, "no theorem for Poisson batches when a row is replaced")
            rate = positive(event["rate"], 1.0)
        elif name == "fixed_size":
            batch, people = whole(event["batch"]), whole(event["population"])
            need(batch <= people and (replaced or (batch == people and adjacency == "zero_out")), "no theorem for this")
            rate = min(1.0, batch / people * (1 + 2.0**-50))
        elif name == "epoch":  # a row is in one batch, the dearest at worst
            need(adjacency != "add_remove", "no theorem for shuffled batches when a row is added: all of them move")
            batches = inner["of"] if inner["event"] == "compose" else [inner]
            inner = max((one["of"] if one["event"] == "repeat" else one for one in batches), key=shift)
        elif name == "allocation":
            times = whole(event["chosen"])
            need(times <= whole(event["steps"]), "no row takes part in more steps than there are")
        elif name == "sparse_histogram":  # delta pays the chance that a value shows which one row alone has
            noise, above = positive(event["noise_multiplier"]), positive(event["threshold"]) - 1
            escapes += count * (math.erfc(above / noise / math.sqrt(2) * (1 - 2.0**-49)) / 2 * UP + 1e-300)
            inner = {"event": "gaussian", "noise_multiplier": noise, "query": "histogram"}
        found[rate, shift(inner)] += count * times
    everyone = math.sqrt(math.fsum(count * mu * mu for (rate, mu), count in found.items() if rate == 1))
    return {one: n for one, n in found.items() if one[0] < 1} | ({(1.0, everyone): 1} if everyone else {}), escapes

REACH, UP = 12.0, 1 + 2.0**-40  # deviations before the tails, which count as infinite losses; more than products round

def between(x: Array) -> tuple[Array, Array]:
    """The normal mass between neighbours of x, as a difference in the nearer tail, and a bound on its rounding."""
    tail, across = np.array([math.erfc(value) for value in np.abs(x) / math.sqrt(2)]) / 2, (x[:-1] < 0) & (x[1:] > 0)
    error = 2.0**-50 * (2 + np.minimum(np.abs(x), 50) ** 2) * tail
    mass = np.where(across, 1 - tail[:-1] - tail[1:], np.abs(tail[1:] - tail[:-1]))
    return mass, error[:-1] + error[1:] + 2.0**-52 * across

def dots(rate: float, mu: float, h: float, symmetric: bool) -> list[tuple[int, Array, float]]:
    """Losses of one step on multiples of h, never too small, if a row is removed and if it is added.

    With N = N(0, 1) and M = (1 - q) N + q N(mu, 1), the loss log dM/dN = log(1 - q + q e), e = exp(mu z - mu^2 / 2),
    grows with z. What lies between the losses t and t + h is moved to both, its masses under M and N kept (Doroshenko
    et al. 2022). Symmetric, for batches of fixed size: losses above 0 are those of removal, those below mirror them,
    and the rest of the mass has loss 0 (Dong, Roth and Su 2019, proposition 2.12)."""
    rest = math.log1p(-rate) if rate < 1 else -math.inf
    low, high = (np.logaddexp(rest, math.log(rate) + mu * z - mu * mu / 2) for z in (-REACH, mu + REACH))
    t = np.arange(0 if symmetric else math.floor(low / h) - 1, math.ceil(high / h) + 2) * h
    e = np.where(t < -1, np.exp(t) - (1 - rate), np.expm1(t) + rate) / rate
    z = np.where(e > 0, np.log(np.maximum(e, 1e-300)) / mu + mu / 2, -np.inf)
    (base, base_error), (moved, moved_error) = between(z), between(z - mu)
    slip = 2.0**-50 * (8 + mu * (mu + REACH))  # more than losses are off by rounding of e and z
    error = moved_error + np.abs(e[1:]) * base_error + 2.0**-50 * moved + slip * np.exp(t[1:]) / rate * base
    up, down = (np.maximum(wedge + error, 0) for wedge in (moved - e[:-1] * base, e[1:] * base - moved))
    mass = rate * (np.append(0, up) / -math.expm1(-h) + np.append(down, 0) / math.expm1(h)) * UP
    ends = (z[-1], z[-1] - mu, -z[0], mu - z[0])  # above the grid and below it, under N and under N(mu, 1)
    above, above_moved, below, below_moved = (math.erfc(x / math.sqrt(2)) / 2 * UP for x in ends)
    mirror = mass * np.exp(-t) * UP
    mirror[-1] += above
    infinite, first = (1 - rate) * above + rate * above_moved, round(t[0] / h)
    if symmetric:
        mass[0] += mirror[0] + (1 - rate) * math.erf(mu / math.sqrt(8)) * UP
        return [(1 - len(t), np.append(mirror[:0:-1], mass), infinite)]
    mass[0] += (1 - rate) * below + rate * below_moved
    return [(first, mass, infinite), (1 - first - len(t), mirror[::-1], below)]

# 5. COMPOSITION: delta(eps) is the mean of (1 - exp(eps - loss))+ over sums of losses, by a Fourier transform.
def cumulant(losses: Losses, h: float, order: float) -> float:
    """The logarithm of the mean of exp(order loss), for the sum of all losses."""
    total = 0.0
    for first, mass, _, count in losses:
        exponent = order * h * (first + np.arange(len(mass)))
        top = float(np.max(exponent[mass > 0]))
        total += count * (top + math.log(float(np.sum(mass * np.exp(np.minimum(exponent - top, 0))))))
    return total

def composed(losses: Losses, h: float, near: float, order: float, delta: float) -> float:
    """An epsilon at which delta is reached, at most. Masses are weighed by exp(order loss), to keep errors small."""
    scale, steps = cumulant(losses, h, order), sum(count for *_, count in losses)
    top, bottom = (min((cumulant(losses, h, order + sign * one) - scale + 32) / one
                       for one in order * 2.0 ** np.arange(-9, 10)) for sign in (1, -1))
    low, high = math.floor(-bottom / h), math.ceil(top / h)  # Chernoff: beyond either is e^-32 of the weighed mass
    size = 1 << max(high - low, 16).bit_length()
    need(size <= 2**23, "a plan that needs too fine a grid", "NOT COVERED")
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for first, mass, _, count in losses:
        exponent = order * h * (first + np.arange(len(mass))) - cumulant([(first, mass, 0.0, 1)], h, order)
        place = np.arange(first, first + len(mass)) % size
        spectrum *= np.fft.rfft(np.bincount(place, mass * np.exp(exponent) * UP, size)) ** count
    window = np.arange(low, low + size)
    weighed, s = np.maximum(np.fft.irfft(spectrum, size)[window % size], 0), window * h
    error, infinite = 2.0**-46 * math.log2(size) * steps, sum(count * lost for _, _, lost, count in losses)
    rounding = steps * 2.0**-48 * (8 + order * h * max(abs(first) + len(mass) for first, mass, *_ in losses))
    def at(epsilon: float) -> float:
        above = s > epsilon
        worth = np.exp(-order * (s[above] - epsilon)) * -np.expm1(epsilon - s[above])
        missed = error * float(np.linalg.norm(worth)) + 4e-14  # of the transform (in l2), and outside the window
        factor = math.exp(min(scale - order * epsilon + rounding, 700))
        return factor * (float(weighed[above] @ worth) * (1 + 1e-9) + missed) + infinite
    below, epsilon = 0.0, max(near, 1e-9)
    while not at(epsilon) <= delta:
        below, epsilon = epsilon, 1.1 * epsilon
        need(epsilon < 1e4, "a plan for which no epsilon was found", "NOT COVERED")
    for _ in range(22):
        middle = (below + epsilon) / 2
        below, epsilon = (below, middle) if at(middle) <= delta else (middle, epsilon)
    return epsilon

def epsilon_of(events: Events, delta: float, adjacency: str, tolerance: float) -> float:
    """An epsilon that events fixed beforehand have at delta, at most; above the least one by about the tolerance."""
    parts, escapes = parts_of(events, adjacency)
    delta = (delta - escapes) * (1 - 2.0**-50)  # what happens with at most that chance, on either side, adds no more
    symmetric = adjacency == "replace_one" and any(rate < 1 for rate, _ in parts)
    steps, widest = sum(parts.values()), max((mu for _, mu in parts), default=0.0)
    need(0 < widest < 25 and delta > 0, "noise or delta too small for double precision, or no release", "NOT COVERED")
    def on_grid(h: float) -> list[Losses]:
        listed = [dots(*part, h, symmetric) for part in parts]
        return [[(*one[way], n) for one, n in zip(listed, parts.values(), strict=True)] for way in range(2 - symmetric)]
    def chernoff(losses: Losses, h: float, order: float) -> tuple[float, float]:
        weight = -math.log1p(order) - order * math.log1p(1 / order)  # the largest exp(-order u) (1 - exp(-u))
        return (cumulant(losses, h, order) + weight - math.log(delta)) / order, order
    coarse = (widest + 1) / 500
    chosen = [min(chernoff(one, coarse, order) for order in np.geomspace(0.02, 2e3, 120)) for one in on_grid(coarse)]
    order = max(chosen)[1]  # the grid spreads losses, which adds about steps (order + 1) h^2 / 12
    h = float(np.float32(min(math.sqrt(6 * tolerance / (steps * (order + 1))), 0.5 / (order + 1), (widest + 1) / 500)))
    both = [composed(losses, h, *start, delta) for losses, start in zip(on_grid(h), chosen, strict=True)]
    return max(both) + steps * 2.0**-50 * (8 + widest * (widest + REACH))

def check(folder: Path, key: str | None) -> str:
    """What is promised, in words; or a `Stop`."""
    facts = strict((folder / "certificate.json").read_bytes())
    check_fields(facts)
    check_files(facts, folder)
    claim, charged, sides = facts["claim"], check_ledger(facts), planned(facts["plan"])
    need(multiset(facts["events"]) == sides[-1], "the events are not those of the plan")
    need(charged <= sides[-1], "what was charged is not part of the plan")
    check_shown(facts, charged)
    for events in sides[:-1] or sides:
        found = epsilon_of(events, claim["delta"], claim["adjacency"], max(claim["epsilon"], 1e-4) / 20000)
        need(found <= claim["epsilon"], f"epsilon {claim['epsilon']:.6g} is claimed, {found:.6g} was found")
    most, signed = math.ceil(claim["epsilon"] * 1e4) / 1e4, check_signature(folder, facts, key)
    sure, whom = math.ceil(1000 / (1 + math.exp(-most))) / 10, "a person" if claim["unit"] == "user" else "a row"
    rows = facts.get("public_batches")  # a function of released weights and of these: they cost nothing
    said = "\npublic rows: {rows} rows declared public have weight {weight:g} in every step; not covered"
    public = said.format(**rows) if rows else ""
    return f"""epsilon {most:.4f}, delta {claim["delta"]:g} and {claim["adjacency"]} follow from the events.
In words: whoever thinks it equally likely that {whom} is in the data or not can be sure of either to at most {sure} %
after all that he learns from this model, but for a chance of about {claim["delta"]:g}. {signed}{public}
It is assumed that training released what the events say, and nothing else was released from the data; and also:
- """ + "\n- ".join(facts["assumptions"])

def main(arguments: list[str]) -> int:
    try:
        need(arguments[1:2] in ([], ["--key"]) and len(arguments) in (1, 3), "use: verify.py FOLDER [--key HEX]")
        print("ACCEPTED:", check(Path(arguments[0]), arguments[2] if arguments[1:] else None))
        return 0
    except Stop as stop:
        print(*stop.args, sep=": ")
    except (OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        print(f"REJECTED: it cannot be followed: {type(error).__name__} {error}")
    return 1

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
