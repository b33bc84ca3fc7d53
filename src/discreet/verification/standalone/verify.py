"""Does the certificate of a published model support its claim?    python verify.py FOLDER [--key PUBLIC_KEY] [--strict]

It needs NumPy and the standard library, uses nothing of the library that wrote the folder, runs nothing of the folder,
and recomputes epsilon from the certificate's events. Take a copy from somewhere else than the folder: a forger could
send his own. PUBLIC_KEY: whose signature it must have, as 64 hexadecimal digits. --strict: also reject files that the
certificate does not cover. Its exit code is 0 for ACCEPTED, 1 for REJECTED or NOT COVERED, 2 for other calls. Not every
theorem fits into one file: the rest is for `discreet verify`. No verifier knows whether training did what events say.
"""

# fmt: off
from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import re
import stat
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # more threads would only wait for each other
try:
    import numpy as np
except ImportError as lacking:
    sys.exit(f"NOT COVERED: verify.py needs NumPy (pip install numpy): {lacking}")

Facts = dict[str, Any]
Array = np.ndarray[Any, np.dtype[np.float64]]
Events = Counter[bytes]  # events in canonical form, and how many there were
Parts = dict[tuple[float, float, int], int]  # (chance to take part, shift in noise deviations, steps): count
Mean = tuple[int, Array, float, float, float]  # first grid index, masses, grid width, mass at 0, mean at infinity
Losses = list[tuple[int, Array, float, int]]  # first grid index, masses, mass at infinity, in how many steps

class Stop(Exception):
    """The verdict, and why: REJECTED, or NOT COVERED where the claim may stand but this file cannot tell."""

def need(holds: bool, why: str, verdict: str = "REJECTED") -> None:
    if not holds:
        raise Stop(verdict, why)

# 1. READING: plain files, with one meaning for every reader, and exactly the fields of the format.
SEALED = ("model.json", "plan.yaml", "report.html", "README.md", "verify.py")  # their hashes are in the certificate
ADAPTERS = ("adapter_config.json", "adapter_model.safetensors")  # these too, if it names the model below adapters
FORMATS = ("discreet-certificate/1", "discreet-certificate/2")
FREE = {"public_batches": "public rows: {rows} rows declared public have weight {weight:g} in every step; not covered",
        "canaries": "canaries: {count} of the units are made-up texts, declared public",  # neither costs anything
        "warm_start": "warm start: other private runs released the weights at the start; what they cost comes on top"}
RATIO = {"clipped_sum": 2.0, "centred_bit": 2.0, "loss": 2.0, "covariance": 2**0.5, "histogram": 2**0.5, "count": 1.0}

def read(folder: Path, name: str) -> bytes:
    """A plain file of a bounded size. A link leads elsewhere, and a pipe never ends: neither is opened."""
    found = (folder / name).lstat()
    need(stat.S_ISREG(found.st_mode), f"{name} is a link, a folder, a pipe or a device, and no plain file")
    need(found.st_size <= (2**34 if name.endswith(".safetensors") else 2**27), f"{name} is too large to be read")
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(folder / name, os.O_RDONLY | careful), "rb") as file:
        need(os.path.samestat(found, os.fstat(file.fileno())), f"{name} was replaced while it was read")
        return file.read(found.st_size + 1)

def strict(content: bytes, printed: bool = True) -> Any:
    """JSON in UTF-8, no key twice, every number finite; if printed, no text that does something when it is shown."""
    def once(given: Any) -> Any:
        return dict(given) if len(dict(given)) == len(given) else need(False, "a key is in the file twice")
    def finite(text: str) -> float:
        need(abs(float(text)) <= sys.float_info.max, f"{text[:20]} is no finite number")
        return float(text)
    need(not re.search(rb"(?<!\s)\s{1000}", content), "a file has a thousand blanks in a row, which hide what follows")
    need(sum(map(content.count, b",[{")) <= 500_000, "a file has more than 500,000 values, and is not read")
    found = json.loads(content.decode("utf-8"), object_pairs_hook=once, parse_float=finite,
                       parse_constant=lambda name: need(False, f"{name} is no number"))
    waiting = [found] if printed else []
    for one in waiting:  # which grows
        waiting += [*one, *one.values()] if type(one) is dict else one if type(one) is list else []
        need(type(one) is not str or one.isprintable(), f"{str(one)[:40]!a} would change how other text is shown")
    return found

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

# Each line has the fields of one kind of object, with the kind of each; or, after " = ", kinds to choose from.
# A "?" says that a field may be missing, "*" stands for all other names, "=a,b" for one of these words.
# The table below is written by scripts/reviewer_table.py, from the schema of certificates.
TABLE = """
certificate: format =discreet-certificate/1,discreet-certificate/2; claim claim; plan Plan | AdaptivePlan;
  plan_fingerprint /sha256:[0-9a-f]{64}/; events Event; clipping clipping; charged_steps whole >=1; ex_post
  ex_post.ex_post | null; search search | null; ledger ledger; mechanism mechanism; assumptions list of text; model
  model; public_evaluations list of public_evaluations.each; bought_metrics list of bought_metrics.each; software
  names to text; released? released; public_batches? public_batches; canaries? canaries; base? base; warm_start? some
  list of warm_start.each; files names to /[0-9a-f]{64}/
AdaptiveClipping: kind =adaptive; initial number >=1e-30 <=1e+30; bit_multiplier number >0; quantile number >0 <1;
  rate number >0 <=10; floor number >=1e-30 <=1e+30; cap number >=1e-30 <=1e+30
AdaptivePlan: kind =adaptive; adjacency Adjacency; unit Unit; sampling PoissonSampling | ShuffleSampling | NoSampling;
  population number >0; clipping FlatClipping | ScheduledClipping | AutomaticClipping | PerLayerClipping |
  GroupClipping | AdaptiveClipping | EllipsoidClipping | BoxClipping; policy Constant | ValidationDecay |
  NoiseByProgress | BatchByProgress | LineSearch | Custom; noise number >0; every number >0; counts Counts | null;
  metrics list of Metric; before list of Event; holdout Holdout | null; odometer Reading | null; filter Filter; delta
  number >0 <1; most_steps whole >=1; block whole >=1; initial_state /sha256:[0-9a-f]{64}/ | null
Adjacency = =add_remove,zero_out,replace_one
AllocationSampling: kind =allocation; period whole >=1; chosen whole >=1
AutomaticClipping: kind =automatic; norm number >=1e-30 <=1e+30; gamma number >=1e-08 <=1e+30
base: name /[!-~]{1,200}/; revision /[!-~]{1,200}/ | null; sha256 /[0-9a-f]{64}/
BatchByProgress: deviations number >0; epochs number >=0; kind =batch_by_progress; step number >0; least number >0
bought_metrics.each: step whole >=1; metric text; value number; standard_deviation number
BoxClipping: scales text; kind =box
canaries: count whole >=1; others whole >=1; sha256 /[0-9a-f]{64}/
claim: kind =guarantee; epsilon number >=0; lower number >=0 | null; delta number >0 <1; adjacency
  =add_remove,zero_out,replace_one; unit =example,user; method text
clipping: rule text; sensitivity number >0 | list of list of number >0; groups? names to clipping.groups.each;
  coordinates? whole >=1; aliases? names to text
clipping.groups.each: norm number >0; parameters list of text
Constant: kind =constant
Counts: noise number >0; rate number >0 <=1 | null
Custom: kind =custom; name text; metric =accuracy,count,training_accuracy,holdout_accuracy | null
CyclicPoissonSampling: kind =cyclic_poisson; rate number >0 <=1; coefficients some list of whole >=1 <=65536
EllipsoidClipping: scales text; kind =ellipsoid; norm number >=1e-30 <=1e+30
Event = Event.gaussian | Event.laplace | Event.bounded_range | Event.noisy_max | Event.sparse_histogram |
  Event.selection | Event.poisson | Event.truncated_poisson | Event.fixed_size | Event.epoch | Event.allocation |
  Event.cyclic_poisson | Event.individual | Event.repeat | Event.compose
Event.allocation: event =allocation; steps whole >=1; chosen whole >=1; of Event
Event.bounded_range: event =bounded_range; epsilon number >0; query
  =clipped_sum,centred_bit,covariance,count,histogram,loss
Event.compose: event =compose; of list of Event
Event.cyclic_poisson: event =cyclic_poisson; parts whole >=1; rate number >0 <=1; of Event
Event.epoch: event =epoch; of Event
Event.fixed_size: event =fixed_size; population whole >=1; batch whole >=1; of Event
Event.gaussian: event =gaussian; noise_multiplier number >0; query
  =clipped_sum,centred_bit,covariance,count,histogram,loss
Event.individual: event =individual; steps whole >=1; full whole >=1; of Event
Event.laplace: event =laplace; scale_multiplier number >0; query
  =clipped_sum,centred_bit,covariance,count,histogram,loss
Event.noisy_max: event =noisy_max; epsilon number >0; query =clipped_sum,centred_bit,covariance,count,histogram,loss
Event.poisson: event =poisson; rate number >0 <=1; of Event
Event.repeat: event =repeat; count whole >=1; of Event
Event.selection: event =selection; of Event; trials Trials
Event.sparse_histogram: event =sparse_histogram; noise_multiplier number >0; threshold number >1
Event.truncated_poisson: event =truncated_poisson; rate number >0 <=1; capacity whole >=1; population whole >=1; of
  Event
ex_post.ex_post: kind =ex_post; reading number >=0 | null; delta number >0 <1; adjacency
  =add_remove,zero_out,replace_one; unit =example,user; method text; charged_steps whole >=1; sentence text
Filter = Filter.rdp-order | Filter.rdp-curve | Filter.zcdp | Filter.gdp | Filter.basic
Filter.basic: filter =basic; epsilon number >0; delta number >0 <1; adjacency =add_remove,zero_out,replace_one; unit
  =example,user
Filter.gdp: filter =gdp; mu_squared number >0; delta number >0 <1; adjacency =add_remove,zero_out,replace_one; unit
  =example,user
Filter.rdp-curve: filter =rdp-curve; orders list of number >0; limits list of number >0; delta number >0 <1; adjacency
  =add_remove,zero_out,replace_one; unit =example,user
Filter.rdp-order: filter =rdp-order; order number >0; limit number >0; delta number >0 <1; conversion
  =classic,improved; adjacency =add_remove,zero_out,replace_one; unit =example,user
Filter.zcdp: filter =zcdp; rho number >0; delta number >0 <1; adjacency =add_remove,zero_out,replace_one; unit
  =example,user
FixedSizeSampling: batch whole >=1; kind =fixed_size
FlatClipping: kind =flat; norm number >=1e-30 <=1e+30
GroupClipping: kind =groups; norms some names to number >=1e-30 <=1e+30
Holdout: share number >0 <1; salt text
IndividualSampling: kind =individual; period whole >=1; full whole >=1
ledger: entries list of ledger.entries.each; digest /[0-9a-f]{64}/; head ledger.head
ledger.entries.each = ledger.entries.each.run | ledger.entries.each.attempt | ledger.entries.each.reservation |
  ledger.entries.each.release | ledger.entries.each.blocks
ledger.entries.each.attempt: kind =attempt; run text; attempt whole >=0; position whole >=0; steps whole >=0; body
  ledger.entries.each.attempt.body
ledger.entries.each.attempt.body: engine =bookkeeping,ghost,vmap,reference,exact,queries; float_bits? whole >=6 <=20 |
  null; noise =fast,exact; randomness text; lanes? whole >=1; sites? whole >=1
ledger.entries.each.blocks: kind =blocks; run text; attempt whole >=0; position whole >=0; steps whole >=1; body
  Event; times whole >=2
ledger.entries.each.release: kind =release; run text; attempt whole >=0; position whole >=0; steps whole >=0; body
  ledger.entries.each.release.body
ledger.entries.each.release.body:
ledger.entries.each.reservation: kind =reservation; run text; attempt whole >=0; position whole >=0; steps whole >=0;
  body Event
ledger.entries.each.run: kind =run; run text; attempt whole >=0; position whole >=0; steps whole >=0; body
  ledger.entries.each.run.body
ledger.entries.each.run.body: plan /sha256:[0-9a-f]{64}/; epsilon number >=0; delta number >0 <1; adjacency
  =add_remove,zero_out,replace_one; unit =example,user; filter? Filter
ledger.head: number whole >=0; seal /[0-9a-f]{64}/
LineSearch: kind =line_search; bound number >0; epsilon number >0; growth number >0; candidates whole >=1; largest
  number >0; widen number >=0; every whole >=1
mechanism: sampler text; engine =bookkeeping,ghost,vmap,reference,exact; float_bits whole >=6 <=20 | null; noise
  =fast,exact; randomness text; lanes? whole >=1; sites? whole >=1; grid_bits whole >=0
Metric: kind =accuracy,loss,size; noise number >0; every whole >=1 | null; bound number >0 | null; rows
  =training,holdout; rate number >0 <=1 | null
model: file =model.safetensors; sha256 /[0-9a-f]{64}/; private list of text; initial names to /[0-9a-f]{64}/
NoiseByProgress: deviations number >0; epochs number >=0; kind =noise_by_progress; step number >0; least number >0 |
  null; save truth
NoisePhase: multiplier number >0; steps whole >=1
NormPhase: norm number >=1e-30 <=1e+30; steps whole >=1
NoSampling: kind =none
Odometer = Odometer.doubling | Odometer.renyi | Odometer.zcdp | Odometer.gdp
Odometer.doubling: odometer =doubling; delta number >0 <1; orders list of number >0; adjacency
  =add_remove,zero_out,replace_one; unit =example,user
Odometer.gdp: odometer =gdp; delta number >0 <1; cap number >0; slope number; adjacency
  =add_remove,zero_out,replace_one; unit =example,user
Odometer.renyi: odometer =renyi; delta number >0 <1; orders list of number >0; adjacency
  =add_remove,zero_out,replace_one; unit =example,user
Odometer.zcdp: odometer =zcdp; delta number >0 <1; scale number >0; adjacency =add_remove,zero_out,replace_one; unit
  =example,user
PartsSearch: grid some list of Setting; initial_states list of /sha256:[0-9a-f]{64}/; kind =parts; score
  =accuracy,loss; bound number >0 | null; epsilon number >0 | null; salt text
PerLayerClipping: kind =per_layer; norm number >=1e-30 <=1e+30
Plan: adjacency Adjacency; unit Unit; rows_per_unit whole >=1; sampling PoissonSampling | TruncatedPoissonSampling |
  FixedSizeSampling | ShuffleSampling | AllocationSampling | CyclicPoissonSampling | NoSampling | IndividualSampling;
  population number >0; clipping FlatClipping | ScheduledClipping | AutomaticClipping | PerLayerClipping |
  GroupClipping | AdaptiveClipping | EllipsoidClipping | BoxClipping; noise some list of NoisePhase; rates list of
  RatePhase; metrics list of Metric; before list of Event; holdout Holdout | null; odometer Reading | null; search
  Search | PartsSearch | null; delta number >0 <1; block whole >=1; initial_state /sha256:[0-9a-f]{64}/ | null
PoissonSampling: kind =poisson; rate number >0 <=1
public_batches: weight number >0 <1; rows whole >=1; batch whole >=1; sha256 /[0-9a-f]{64}/
public_evaluations.each: step whole >=0; * number
RatePhase: rate number >0 <=1; steps whole >=1
Reading: odometer Odometer; most number >0 | null
released: file =released.safetensors; sha256 /[0-9a-f]{64}/; tensors list of text
ScheduledClipping: kind =scheduled; phases some list of NormPhase
search: winner names to any; epsilon_of_one_run number >=0
Search: grid some list of Setting; initial_states list of /sha256:[0-9a-f]{64}/; kind =random_stopping; trials Trials;
  score some text
Setting: name some text; values some list of any
ShuffleSampling: batch whole >=1; kind =shuffle
Trials = Trials.truncated_negative_binomial | Trials.poisson
Trials.poisson: law =poisson; mean number >0
Trials.truncated_negative_binomial: law =truncated_negative_binomial; shape number; success number >0
TruncatedPoissonSampling: kind =truncated_poisson; rate number >0 <=1; capacity whole >=1
Unit = =example,user
ValidationDecay: kind =validation_decay; threshold number >=0; average whole >=1; period whole >=1; factor number >0
  <1; floor number >=0; metric =accuracy,count,training_accuracy,holdout_accuracy
warm_start.each: run /[!-~]{1,200}/; epsilon number >=0 | null; delta number >0 <1; adjacency Adjacency; unit Unit
"""
# End of the table.
LINES = TABLE.replace("\n  ", " ").strip().splitlines()
CHOICES = dict(line.split(" = ", 1) for line in LINES if " = " in line)
FIELDS = dict(line.split(":", 1) for line in LINES if " = " not in line)
OBJECTS = {title: [part.split(" ", 1) for part in parts.strip().split("; ") if part] for title, parts in FIELDS.items()}

def check_kind(value: Any, kind: str, where: str) -> None:
    """Refuse a value that is of none of these kinds, or an object with other fields than those of its kind."""
    ways = [way for one in kind.split(" | ") for way in CHOICES.get(one, one).split(" | ")]
    if type(value) is dict and not OBJECTS.keys().isdisjoint(ways):
        fixed = {way: [(name, only[1:]) for name, only in OBJECTS[way] if only[0] == "=" and "," not in only]
                 for way in ways if way in OBJECTS}  # words that say of which kind it is: its event, or its kind
        alike = [way for way, words in fixed.items() if len(fixed) == 1 or all(value.get(a) == b for a, b in words)]
        need(bool(alike), f"{where} is of no known kind")
        fields = OBJECTS[max(alike, key=lambda way: len(fixed[way]))]
        named = {name.removesuffix("?"): inner for name, inner in fields}
        for name, _ in fields:
            need(name[-1] in "?*" or name in value, f"{where} lacks {name}")
        for name, inner in value.items():
            need(name in named or "*" in named, f"{where} has the unknown field {name[:40]}")
            check_kind(inner, named.get(name) or named["*"], f"{where}.{name[:40]}")
        return
    for way in ways:
        items, word = way.removeprefix("some "), "list of " if type(value) is list else "names to "
        if items.startswith(word) and type(value) in (list, dict):
            need(bool(value) or items == way, f"{where} is empty")
            for place, inner in value.items() if type(value) is dict else enumerate(value):
                check_kind(inner, items.removeprefix(word), f"{where}.{str(place)[:40]}")
            return
    need(any(is_plain(value, way) for way in ways if way not in OBJECTS), f"{where} is not: {kind[:80]}")

def is_plain(value: Any, way: str) -> bool:
    """Whether a value is a word of a list, text of a pattern, or of a plain type and within limits."""
    if way[0] in "=/":
        pattern = way[1:-1] if way[0] == "/" else re.escape(way[1:]).replace(",", "|")
        return type(value) is str and re.fullmatch(pattern, value) is not None
    some, (word, *limits) = way.startswith("some "), way.removeprefix("some ").split()
    known = {"null": value is None, "any": True, "truth": type(value) is bool, "whole": type(value) is int,
             "number": type(value) in (int, float) and abs(value) <= sys.float_info.max,
             "text": type(value) is str and (bool(value) or not some)}
    def within(limit: str) -> bool:
        least = float(limit.removeprefix(sign := limit.rstrip("+-.0123456789e")))
        return bool({">": value > least, ">=": value >= least, "<": value < least, "<=": value <= least}[sign])
    return known.get(word, False) and all(map(within, limits))

def check_fields(facts: Facts) -> None:
    need(type(facts) is dict and facts.get("format") in FORMATS, "another format", "NOT COVERED")
    check_kind(facts, "certificate", "certificate")
    claim, plan, mechanism = facts["claim"], facts["plan"], facts["mechanism"]
    need(plan.get("kind") != "adaptive", "a run that was chosen on the way, under a filter", "NOT COVERED")
    need((facts["ex_post"], plan["odometer"]) == (None, None), "a statement of an odometer", "NOT COVERED")
    need((facts["search"], plan["search"]) == (None, None), "a search for settings", "NOT COVERED")
    need(claim["method"] in ("pld", "rdp", "gaussian"), "the theorem is not one for a plan that was fixed beforehand")
    need(all(claim[name] == plan[name] for name in ("delta", "adjacency", "unit")), "claim and plan differ")
    need(claim["unit"] == "user" or plan["rows_per_unit"] == 1, "whose rows?")
    need(claim["epsilon"] < 700, "an epsilon of 700 or more", "NOT COVERED")
    need(positive(claim["delta"], 0.999) > 1e-18, "a delta too small for double precision", "NOT COVERED")
    need(facts["plan_fingerprint"] == "sha256:" + sha(canonical(plan)), "the fingerprint is not the plan's")
    need(mechanism["randomness"] == "system", "the noise can be repeated: it is not from the operating system")
    need(mechanism["grid_bits"] in range(20, 51), "a grid that is too coarse, or too fine")
    need((mechanism["engine"] == "exact") == (mechanism["float_bits"] is None), "the float slack is not the engine's")
    need(mechanism["sampler"] == plan["sampling"]["kind"], "the sampler is not the plan's")
    need(mechanism["engine"] == "exact" or mechanism["sampler"] != "individual", "budgets of rows not computed alone")
    apart = mechanism["sampler"] in ("poisson", "allocation", "cyclic_poisson", "none") and mechanism.get("lanes")
    need("sites" not in mechanism or mechanism["sites"] == apart, "sites whose units are not drawn independently")
    need((rows := facts.get("public_batches")) is None or rows["batch"] <= rows["rows"], "no such public rows")
    need(all(text.isascii() and 0 < len(text) <= 2000 for text in facts["assumptions"] or [""]), "no assumptions")
    need(("(warm_start)" in "".join(facts["assumptions"])) == ("warm_start" in facts), "an untold warm start, or none")

# 2. HASHES: model, files and ledger are those that the certificate is about.
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
         "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8, "C64": 8}  # bytes of a number of each type

def tensors(content: bytes) -> dict[str, tuple[list[int], str]]:
    """Shape and digest of each tensor of a safetensors file, in which every byte is of one tensor."""
    start = 8 + int.from_bytes(content[:8], "little")
    header, found = strict(content[8:start]), {}
    need(start <= len(content) and type(header) is dict, "a file of tensors has another header than it says")
    for name, entry in header.items():
        need(set(entry) == {"dtype", "shape", "data_offsets"} and entry["dtype"] in SIZES, "a tensor of unknown type")
        shape, (begin, end) = entry["shape"], entry["data_offsets"]
        need(len(shape) <= 64 and all(type(n) is int and 0 <= n < 2**63 for n in [*shape, begin, end]), "no such shape")
        need(end - begin == math.prod(shape) * SIZES[entry["dtype"]], "a tensor has other bytes than its shape needs")
        found[name] = shape, sha(f"{entry['dtype']}{shape}".encode() + content[start + begin : start + end])
    edges = [0, *itertools.chain(*sorted(entry["data_offsets"] for entry in header.values())), len(content) - start]
    need(edges[::2] == edges[1::2], "tensors overlap, or leave bytes between them")
    return found

def check_files(facts: Facts, folder: Path) -> None:
    """The files are the published ones; whatever was not trained is as declared before training."""
    model, content = facts["model"], read(folder, "model.safetensors")
    need(sha(content) == model["sha256"], "the model is not the certified one")
    base, sealed = facts.get("base"), {*SEALED, *(ADAPTERS if "base" in facts else ())}
    need(set(facts["files"]) == sealed, "a file has no hash, or one is named that is no part of a folder")
    for name in sealed:
        need(sha(read(folder, name)) == facts["files"][name], f"{name} was changed")
    shown = (strict(read(folder, "model.json"), printed=False).get("language") or {}).get("canaries", ())
    texts, others = [one["text"] for one in shown], {one["others"] for one in shown}
    seen = [{"count": len(texts), "others": one, "sha256": sha(canonical(texts))} for one in others]
    need(seen == [facts[name] for name in ("canaries",) if name in facts], "model.json shows other canaries, or none")
    need(len(set(texts)) == len(texts) < facts["plan"]["population"], "a canary is twice there, or every unit is one")
    need(not texts or facts["plan"]["holdout"] is None, "canaries may be held out, and so not drawn as all others are")
    found, initial, private = tensors(content), model["initial"], set(model["private"])
    need(set(found) == set(initial), "model and certificate have other tensors")
    need(private <= set(found) and len(private) == len(model["private"]), "a trained tensor is not there, or twice")
    for name in set(found) - private:
        need(found[name][1] == initial[name], f"tensor {name[:80]!r} was not trained, and is not as declared")
    if base is not None:  # weights below the adapters, of which the model holds the hash
        plain = {re.sub(r"^inner\.|(\.modules_to_save)?\.default", "", name): found[name] for name in model["private"]}
        need(tensors(read(folder, ADAPTERS[1])) == plain, "the adapters are not those that were trained")
        need(initial.get("base_sha256") == sha(b"U8[32]" + bytes.fromhex(base["sha256"])), "another base model")
    state = sha("\n".join(f"{name} {initial[name]}" for name in sorted(found)).encode())
    need(facts["plan"]["initial_state"] == f"sha256:{state}", "the plan declares another initial state")
    there, stated = os.path.lexists(folder / "released.safetensors"), facts.get("released")
    need(there == (stated is not None), "released.safetensors is there and not certified, or the reverse")
    if stated is not None:  # components of a noisy covariance, or a center, of a noisy sum, before the first step
        content = read(folder, "released.safetensors")
        need(sha(content) == stated["sha256"], "released.safetensors is not the certified one")
        ((name, (shape, _)),) = tensors(content).items()
        need(stated["tensors"] == [name], "another tensor was released than it says")
        asked = [event.get("query") for event in facts["plan"]["before"] if event["event"] == "gaussian"]
        query, axes = {"components": ("covariance", 2), "center": ("clipped_sum", 1)}.get(name, ("query", 0))
        need(query in asked and len(shape) == axes and shape[:1] <= shape[-1:], f"no {query} is paid for that gives it")

def record_of(facts: Facts) -> list[Facts]:
    """The ledger's entries. "blocks" stands for a charge and its release, `times` times, each after the one before."""
    record, room = list[Facts](), 2**29  # bytes
    for entry in facts["ledger"]["entries"]:
        times, first, steps = (one := {**entry}).pop("times", 0), entry["position"], entry["steps"]
        need(times == 0 or facts["format"] == FORMATS[1], "blocks that repeat are of format 2")
        room -= 2 * times * len(canonical(entry))
        need(room >= 0 and len(record) + 2 * times <= 2**20, "more entries than can be written out")
        for at in range(first, first + times * steps, steps or 1):
            record.append({**one, "kind": "reservation", "position": at})
            record.append({**one, "kind": "release", "position": at + steps, "steps": 0, "body": {}})
        record += [one] if times == 0 else []
    return record

def check_ledger(facts: Facts) -> Events:
    """The record is whole, of one run, with this claim. Returns what was charged."""
    record, claim, mechanism = record_of(facts), facts["claim"], facts["mechanism"]
    need(facts["ledger"]["digest"] == sha(canonical(record)), "the ledger's entries are not those that were sealed")
    need([entry["kind"] == "run" for entry in record] == [True] + [False] * (len(record) - 1), "not one run")
    need(len({entry["run"] for entry in record}) == 1, "entries of several runs")
    opened, charged, position = record[0]["body"], Events(), 0
    need("filter" not in opened and opened["plan"] == facts["plan_fingerprint"], "the ledger is of another plan")
    need(all(opened[name] == claim[name] for name in ("epsilon", "delta", "adjacency", "unit")), "another claim")
    wanted = {name: mechanism[name] for name in mechanism if name not in ("sampler", "grid_bits")}
    asked = [{"engine": "queries", "noise": wanted["noise"], "randomness": "system"}] if facts["plan"]["before"] else []
    started = [entry["body"] for entry in record if entry["kind"] == "attempt"]
    need(started == asked + [wanted] * max(1, len(started) - len(asked)), "another engine, noise, lanes or sites")
    for entry in record:
        steps = steps_in(entry["body"]) if entry["kind"] == "reservation" else 0
        need(entry["steps"] == steps, "an entry says that it has other steps than it has")
        if entry["kind"] == "reservation":
            need(entry["position"] == position, "a block of steps is missing, or stands in another place")
            position += steps
            charged += multiset(entry["body"], True)
    need(0 < position == facts["charged_steps"], "another number of steps was charged")
    return charged

def check_signature(folder: Path, facts: Facts, key: str | None) -> str:
    if not os.path.lexists(folder / "signature.json"):
        need(key is None, "it is not signed")
        return "It is not signed."
    stated = strict(read(folder, "signature.json"))
    wanted = {"format": "discreet-signature/1", "algorithm": "Ed25519", "certificate": sha(canonical(facts)),
              "files": facts["files"] | {"model.safetensors": facts["model"]["sha256"]}}
    need(set(stated) == {*wanted, "public_key", "signature"}, "another kind of signature")
    for name, value in wanted.items():
        need(stated[name] == value, f"the signature is of another {name}")
    public, signature = stated["public_key"], stated.pop("signature")
    need(bool(re.fullmatch("[0-9a-f]{64}", public) and re.fullmatch("[0-9a-f]{128}", signature)), "no key or signature")
    need(ed25519(bytes.fromhex(public), canonical(stated), bytes.fromhex(signature)), "the signature is not by its key")
    need(key is None or key.lower() == public, "it is signed by somebody else")
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
DRAWN = {"poisson": ("rate", "of"), "fixed_size": ("population", "batch", "of"), "individual": ("steps", "full", "of"),
         "epoch": ("of",), "allocation": ("steps", "chosen", "of"), "cyclic_poisson": ("parts", "rate", "of")}

def leaves(event: Any, times: int = 1) -> Any:
    """The events inside compositions and repetitions, each with its count."""
    name = event["event"]
    need(name in ("gaussian", "sparse_histogram", "compose", "repeat", *DRAWN), f"an event {name}", "NOT COVERED")
    if name == "compose":
        for part in event["of"]:
            yield from leaves(part, times)
    elif name == "repeat":
        yield from leaves(event["of"], times * whole(event["count"]))
    else:
        yield event, times

def multiset(event: Any, listed: bool = False) -> Events:
    """The number of times that each event happened; `listed`: refuse all but one composition of repetitions."""
    found, alike = Events(), event["event"] == "compose" and all(one["event"] == "repeat" for one in event["of"])
    need(alike or not listed, "no list of repeats")
    for leaf, count in leaves(event):
        found[canonical(leaf)] += count
    return found

def steps_in(event: Any) -> int:
    """How many steps events cover: an epoch those of its batches, a period or round its own, all others one."""
    def places(leaf: Any) -> int:
        inner = leaf.get("of", leaf)
        return sum(n for _, n in leaves(inner)) if leaf["event"] == "epoch" else leaf.get("steps", leaf.get("parts", 1))
    return sum(count * places(leaf) for leaf, count in leaves(event))

def planned(plan: Facts) -> list[Events]:
    """The releases of a fixed plan, from either part of the data if rows are held out; the last is all of it."""
    sampling, people, steps, held = plan["sampling"], plan["population"], Events(), Events()
    need(sum(phase["steps"] for phase in [*plan["noise"], *plan["rates"]]) <= 10**7, "too many steps", "NOT COVERED")
    noise = [phase["multiplier"] for phase in plan["noise"] for _ in range(whole(phase["steps"]))]
    rates = [phase["rate"] for phase in plan["rates"] for _ in range(whole(phase["steps"]))]
    kind = "epoch" if sampling["kind"] == "shuffle" else sampling["kind"]
    covered = kind == "poisson" and len(rates) == len(noise) and rates[0] == sampling["rate"]
    need(not rates or covered, "rates that change do not cover the steps, or do not begin with that of the sampling")
    length = sampling.get("period", len(sampling.get("coefficients", "1")))  # noise is correlated inside a round
    length = math.ceil(people / sampling["batch"]) if kind == "epoch" else length
    need(len(noise) % whole(length) == 0, "the steps are no multiple of an epoch or period")
    need(kind == "none" or kind in DRAWN, f"{str(kind)[:40]} sampling", "NOT COVERED")
    need(kind not in ("fixed_size", "epoch") or people == int(people), "no whole population")
    known = sampling | {"population": int(people), "steps": length, "parts": length}
    fixed = plan["clipping"]["kind"] in ("flat", "automatic", "per_layer", "groups") and plan["odometer"] is None
    fixed = fixed and len(set(noise)) == 1 and all(metric["rows"] == "holdout" for metric in plan["metrics"])
    weights = sampling.get("coefficients", [2, 1])
    need(len(weights) > 1 and weights[0] <= 2**16 and weights == sorted(weights, reverse=True), "no such coefficients")
    need(kind != "cyclic_poisson" or fixed, "correlated noise, or its clipping, changes, or rows are read again")
    periods = Counter((*noise[at : at + length], rates[at] if rates else 0) for at in range(0, len(noise), length))
    for (*inside, rate), times in periods.items():
        period = [{"event": "gaussian", "noise_multiplier": one, "query": "clipped_sum"} for one in inside]
        alike = [{"event": "repeat", "count": len(list(same)), "of": one} for one, same in itertools.groupby(period)]
        need(kind not in ("allocation", "individual") or len(alike) == 1, "the noise changes inside a period")
        known["of"] = {"event": "compose", "of": alike} if kind == "epoch" and length > 1 else period[0]
        known |= {"rate": rate} if rates else {}
        drawn = {"event": kind} | {name: known[name] for name in DRAWN.get(kind, ())}
        steps[canonical(period[0] if kind == "none" else drawn)] += times
    need(len({(one["rows"], one["kind"]) for one in plan["metrics"]}) == len(plan["metrics"]), "one metric twice")
    for metric in plan["metrics"]:
        need((metric["kind"] == "loss") == (metric["bound"] is not None), "a loss has a bound, and nothing else has")
        need(metric["kind"] != "size" or metric["every"] is None is metric["rate"], "a size is bought once, of all")
        others = [one["every"] or 1 for one in plan["metrics"] if one["rows"] == metric["rows"] and one != metric]
        times = 1 if metric["every"] is None else len(noise) // whole(metric["every"])
        times = times if metric["kind"] != "size" else int(min(others, default=1) <= len(noise))  # with the first other
        (held if metric["rows"] == "holdout" else steps)[metric_event(metric)] += times
    need((plan["holdout"] is not None) == bool(held), "rows are held out exactly where a metric is on them")
    need(not held or kind not in ("fixed_size", "epoch"), "the number of rows is public, and a holdout makes it random")
    need(plan["unit"] == "example" or not plan["before"], "queries before the first step are about single rows")
    need(all(one["event"] in ("gaussian", "sparse_histogram", "poisson") for one in plan["before"]), "no single charge")
    first = Events(canonical(event) for event in plan["before"])  # nobody is on both sides; a replaced row may change
    apart = [steps + first, held + first] if held and plan["adjacency"] != "replace_one" else []
    return [*apart, steps + held + first]

def metric_event(metric: Facts) -> bytes:
    query = {"accuracy": "centred_bit", "loss": "loss", "size": "count"}[metric["kind"]]
    one = {"event": "gaussian", "noise_multiplier": float(metric["noise"]), "query": query}
    return canonical(one if metric["rate"] is None else {"event": "poisson", "rate": metric["rate"], "of": one})

CLIPPED = {"flat": "the clip norm", "ellipsoid": "the clip norm, of gradients divided by public scales",
           "automatic": "the clip norm, which norm x length / (length + gamma) never reaches"}

def check_shown(facts: Facts, events: Events, sides: list[Events]) -> None:
    """Metrics that are shown were bought, and noise is relative to the sensitivity that clipping gives."""
    bought = {f"{one['rows']}_{one['kind']}": metric_event(one) for one in facts["plan"]["metrics"]}
    for rows, side in zip(("training", "holdout", "")[-len(sides):], sides, strict=True):  # whose rows paid
        shown = [bought.get(one["metric"], b"") for one in facts["bought_metrics"] if one["metric"].startswith(rows)]
        need(Events(shown) <= side & events, "a metric is unpaid")
    need((spec := facts["plan"]["clipping"])["kind"] in CLIPPED, f"{spec['kind']} clipping", "NOT COVERED")
    wanted = {"rule": CLIPPED[spec["kind"]], "sensitivity": positive(spec["norm"])}
    need(facts["clipping"] == wanted, "the sensitivity is not the clip norm, or it is by the rule of other clipping")

# 4. WHAT A STEP COSTS: the theorem for each sampler, and the privacy loss of one step on a grid.
def parts_of(events: Events, adjacency: str) -> tuple[Parts, float]:
    """Steps as (chance to take part, shift, period), and what they cost of delta."""
    need(adjacency in ("add_remove", "zero_out", "replace_one"), "nobody knows these neighbours")
    replaced, escapes, found = adjacency == "replace_one", 0.0, Counter[tuple[float, float, int]]()
    def shift(inner: Any) -> float:
        """Gaussian queries on one draw move together, by the root of the sum of squares."""
        square = 0.0
        for one, count in leaves(inner):
            need(one["event"] == "gaussian", "a draw inside a draw")
            square += count * ((RATIO[one["query"]] if replaced else 1.0) / positive(one["noise_multiplier"])) ** 2
        return math.sqrt(square) * (1 + 1e-14)
    for text, count in events.items():
        event, rate, times, block = json.loads(text), 1.0, 1, 1
        name, inner = event["event"], event.get("of", event)
        if name in ("poisson", "cyclic_poisson"):  # in a round a row has one turn, and moves all releases by `of`
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
            need((times := whole(event["chosen"])) <= whole(event["steps"]), "no row takes part in so many steps")
            block = 1 if replaced else whole(event["steps"]) // times  # known which block has which of its steps
            rate = 1 / block
        elif name == "individual":  # a row adds, in all steps together, no more than in `full` steps at full length
            times = whole(event["full"])
            need(times <= whole(event["steps"]) and inner.get("query") == "clipped_sum", "no such budget of a row")
        elif name == "sparse_histogram":  # delta pays the chance that a value shows which one row alone has
            noise, above = positive(event["noise_multiplier"]), positive(event["threshold"]) - 1
            escapes += count * (math.erfc(above / noise / math.sqrt(2) * (1 - 2.0**-49)) / 2 * UP + 1e-300)
            inner = {"event": "gaussian", "noise_multiplier": noise, "query": "histogram"}
        found[rate, shift(inner), block] += count * times
    everyone = math.sqrt(math.fsum(count * mu * mu for (rate, mu, _), count in found.items() if rate == 1))
    return {one: n for one, n in found.items() if one[0] < 1} | ({(1.0, everyone, 1): 1} if everyone else {}), escapes

REACH, UP = 12.0, 1 + 2.0**-40  # deviations before the tails, which count as infinite losses; more than products round

def between(x: Array) -> tuple[Array, Array]:
    """The normal mass between neighbours of x, as a difference in the nearer tail, and a bound on its rounding."""
    tail, across = np.array([math.erfc(value) for value in np.abs(x) / math.sqrt(2)]) / 2, (x[:-1] < 0) & (x[1:] > 0)
    error = 2.0**-50 * (2 + np.minimum(np.abs(x), 50) ** 2) * tail
    mass = np.where(across, 1 - tail[:-1] - tail[1:], np.abs(tail[1:] - tail[:-1]))
    return mass, error[:-1] + error[1:] + 2.0**-52 * across

def dots(rate: float, mu: float, steps: int, h: float, symmetric: bool) -> list[tuple[int, Array, float]]:
    """Losses of one step on multiples of h, never too small, if a row is removed and if it is added.

    With N = N(0, 1) and M = (1 - q) N + q N(mu, 1), the loss log dM/dN = log(1 - q + q e), e = exp(mu z - mu^2 / 2),
    grows with z. What lies between the losses t and t + h is moved to both, its masses under M and N kept (Doroshenko
    et al. 2022). Symmetric, for batches of fixed size: losses above 0 are those of removal, those below mirror them,
    and the rest of the mass has loss 0 (Dong, Roth and Su 2019, proposition 2.12)."""
    if steps > 1:
        return [allocated(steps, mu, h, True), allocated(steps, mu, h, False)]
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

def spread(mass: Array, mean: Array, error: Array, width: float, up: bool) -> Array:
    """The masses of cells on their ends; `mean` is mass times mean, in units of the lower end, up to the error."""
    share = np.clip((mean - mass + (error if up else -error)) / math.expm1(width), 0, mass)
    return np.asarray(np.append(mass - share, 0) + np.append(0, share), np.float64)

def finer(one: Mean, width: float) -> Mean:
    while one[2] > width:
        one = (2 * one[0], np.insert(one[1], np.arange(1, len(one[1])), 0), one[2] / 2, *one[3:])
    return one

def ratio_of_one(mu: float, width: float, up: bool) -> Mean:
    """exp(mu z - mu^2 / 2) on a grid: the mean of a cell is the mass that it has around mu instead of 0."""
    reach = mu * (REACH + mu / 2)
    t = np.arange(math.floor(-reach / width), math.ceil(reach / width) + 1) * width
    z = np.asarray(t / mu + mu / 2, np.float64)
    (mass, off), (mean, error) = between(z), (part * np.exp(-t[:-1]) for part in between(z - mu))
    error = error + off * math.exp(width) + 2.0**-48 * (4 + np.abs(t[:-1])) * mean
    mass = spread(mass + off, mean, error, width, up)
    below, above, moved = (math.erfc(x / math.sqrt(2)) / 2 * UP for x in (-z[0], z[-1], z[-1] - mu))
    mass[0], mass[-1] = mass[0] + (below if up else 0), mass[-1] + above
    return round(t[0] / width), mass, width, 0.0 if up else below, moved if up else 0.0

def mean_of(one: Mean, other: Mean, share: float, up: bool) -> Mean:
    """share x one + (1 - share) x other, of independent variables on one grid, without ends of next to no mass."""
    (i, a, width, zero, infinite), (j, b, _, zero_too, infinite_too) = one, other
    apart = np.arange(1 - len(a), len(b)) + j - i  # how many points b's is above a's: it alone decides the place
    value = np.logaddexp(math.log(share), math.log1p(-share) + apart * width)
    place = np.floor(value / width).astype(np.int64)
    ratio, first = np.exp(value - place * width), i + int(np.min(place))
    mass, mean = np.zeros((2, max(i + len(a), j + len(b)) + 2 - first))  # a mean is at most the larger
    for d, at, by in zip((apart - (j - i)).tolist(), place.tolist(), ratio.tolist(), strict=True):
        start, stop = max(0, -d), min(len(a), len(b) - d)
        pairs, to = a[start:stop] * b[start + d:stop + d], i + start + at - first
        mass[to:to + len(pairs)] += pairs
        mean[to:to + len(pairs)] += pairs * by
    rounding = 2.0**-51 * (len(apart) + 64 + 64 * width * float(np.max(np.abs(place))))
    error = 4 * rounding * mass[:-1] * math.exp(width)
    mass = spread(mass[:-1] * (1 + rounding), mean[:-1], error, width, up)
    ends = mass * np.exp((first + np.arange(len(mass))) * width) if up else mass
    low, high = np.searchsorted(np.cumsum(mass), 1e-24), len(mass) - np.searchsorted(np.cumsum(ends[::-1]), 1e-24)
    kept, below = mass[low:max(high, low + 2)].copy(), float(mass[:low].sum()) * UP
    kept[-1] += mass[low + len(kept):].sum() * UP
    kept[0] += below if up else 0
    infinite = (share * infinite + (1 - share) * infinite_too + (ends[low + len(kept):].sum() if up else 0)) * UP
    return first + int(low), kept, width, (zero + zero_too + (0 if up else below)) * UP, float(infinite)

def allocated(steps: int, mu: float, h: float, removed: bool) -> tuple[int, Array, float]:
    """Losses of a period, in one of whose steps, at random, a row takes part, on multiples of h, never too small.

    With the row, the density of all releases is Y times that without it; Y is the mean of one ratio for each step.
    Given the past, a ratio is exp(s z - s^2 / 2) for some s <= mu, and the deltas are means of (Y - c)+ and (1 - c
    Y)+, convex in every ratio: they are largest, last step first, if all are independent with s = mu. So a mean of
    two may be spread to a grid of exp(index width), its mean kept, and moved up for removal, down for addition."""
    span, known = 2 * mu * (REACH + mu / 2), dict[int, Mean]()
    known[1] = ratio_of_one(mu, h * 2 ** max(0, math.ceil(math.log2(span / h / 6000))), removed)
    def of(count: int) -> Mean:
        if count not in known:
            small, large = of(count // 2), of(count - count // 2)
            width = min(small[2], large[2])
            found = mean_of(finer(small, width), finer(large, width), count // 2 / count, removed)
            known[count] = finer(found, max(h, found[2] / 2)) if len(found[1]) <= 3000 else found
        return known[count]
    first, mass, _, zero, infinite = finer(of(steps), h)
    t = (first + np.arange(len(mass))) * h
    return (first, mass * np.exp(t) * UP, infinite) if removed else (1 - first - len(mass), mass[::-1], zero)

# 5. COMPOSITION: delta(eps) is the mean of (1 - exp(eps - loss))+ over sums of losses, by a Fourier transform.
def cumulant(losses: Losses, h: float, order: float) -> float:
    """The logarithm of the mean of exp(order loss), for the sum of all losses."""
    total = 0.0
    for first, mass, _, count in losses:
        exponent = order * h * (first + np.arange(len(mass)))
        top = float(np.max(exponent[mass > 0]))
        total += count * (top + math.log(float(np.sum(mass * np.exp(np.minimum(exponent - top, 0))))))
    return total

def composed(losses: Losses, h: float, near: float, order: float, delta: float, claim: float) -> float:
    """An epsilon at which delta is reached, at most. Masses are weighed by exp(order loss), to keep errors small."""
    scale, steps = cumulant(losses, h, order), sum(count for *_, count in losses)
    top, bottom = (min((cumulant(losses, h, order + sign * one) - scale + 32) / one
                       for one in order * 2.0 ** np.arange(-9, 10)) for sign in (1, -1))
    low, high = math.floor(-bottom / h), math.ceil(top / h)  # Chernoff: beyond either is e^-32 of the weighed mass
    need((size := 1 << max(high - low, 16).bit_length()) <= 2**23, "a plan that needs too fine a grid", "NOT COVERED")
    window, spectrum = np.arange(low, low + size), np.ones(size // 2 + 1, dtype=np.complex128)
    for first, mass, _, count in losses:
        exponent = order * h * (first + np.arange(len(mass))) - cumulant([(first, mass, 0.0, 1)], h, order)
        place = np.arange(first, first + len(mass)) % size
        spectrum *= np.fft.rfft(np.bincount(place, mass * np.exp(exponent) * UP, size)) ** count
    weighed, s = np.maximum(np.fft.irfft(spectrum, size)[window % size], 0), window * h
    error, infinite = 2.0**-46 * math.log2(size) * steps, sum(count * lost for _, _, lost, count in losses)
    rounding = steps * 2.0**-48 * (8 + order * h * max(abs(first) + len(mass) for first, mass, *_ in losses))
    def at(epsilon: float, error: float) -> float:
        beyond = s[(start := int(np.searchsorted(s, epsilon, "right"))):] - epsilon
        worth = np.exp(-order * beyond) * -np.expm1(-beyond)
        missed = error * float(np.linalg.norm(worth)) + (4e-14 if error else 0.0)  # in l2; outside the window
        factor = math.exp(min(scale - order * epsilon + rounding, 700))
        return factor * (float(weighed[start:] @ worth) * (1 + 1e-9) + missed) + infinite
    below, epsilon = 0.0, max(near, 1e-9)
    while not at(epsilon, error) <= delta:
        below, epsilon = epsilon, 1.1 * epsilon
        need(epsilon < 1e4, "a plan for which no epsilon was found", "NOT COVERED")
    for _ in range(22):
        middle = (below + epsilon) / 2
        below, epsilon = (below, middle) if at(middle, error) <= delta else (middle, epsilon)
    off, whole = at(epsilon, error) - at(epsilon, 0.0), math.exp(min(cumulant(losses, h, 0.0), 700))  # rounded up
    clear = off < delta / 200 and epsilon > 1e-8 and (epsilon <= claim or at(claim, 0.0) > delta * whole)
    need(clear, "a plan for which rounding decides", "NOT COVERED")
    return epsilon

def epsilon_of(events: Events, delta: float, adjacency: str, tolerance: float, claim: float = 0.0) -> float:
    """An epsilon that events fixed beforehand have at delta, at most; above the least one by about the tolerance."""
    parts, escapes = parts_of(events, adjacency)
    delta = (delta - escapes) * (1 - 2.0**-50)  # what happens with at most that chance, on either side, adds no more
    symmetric = adjacency == "replace_one" and any(rate < 1 for rate, _, _ in parts)
    steps, widest = sum(parts.values()), max((mu for _, mu, _ in parts), default=0.0)
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
    h = float(np.float32(min(math.sqrt(6 * tolerance / (steps * (order + 1))), 0.5 / (order + 1), coarse)))
    need(widest * (widest + 2 * REACH) < 2**24 * h, "a plan that needs too fine a grid", "NOT COVERED")
    both = [composed(losses, h, *start, delta, claim) for losses, start in zip(on_grid(h), chosen, strict=True)]
    return max(both) + steps * 2.0**-50 * (8 + widest * (widest + REACH))

def uncovered(facts: Facts, folder: Path) -> str:
    covered = {"certificate.json", "model.safetensors", "signature.json", *facts["files"]}
    found = set(os.listdir(folder)) - covered - ({"released.safetensors"} if "released" in facts else set())
    named = ", ".join(ascii(name[:40]) for name in sorted(found)[:5]) + (", ..." if len(found) > 5 else "")
    said = "1 file here is" if len(found) == 1 else f"{len(found)} files here are"
    return f"{said} not covered by the certificate ({named})" if found else ""

def check(folder: Path, key: str | None, strictly: bool = False) -> str:  # the promise in words; or a Stop
    check_fields(facts := strict(read(folder, "certificate.json")))
    check_files(facts, folder)
    claim, charged, sides = facts["claim"], check_ledger(facts), planned(facts["plan"])
    need(multiset(facts["events"], True) == sides[-1], "the events are not those of the plan")
    need(charged <= sides[-1], "what was charged is not part of the plan")
    check_shown(facts, charged, sides)
    epsilon, asked, parts = claim["epsilon"], (claim["delta"], claim["adjacency"]), sides[:-1] or sides
    least, low = max(epsilon, 1e-4), epsilon < 1e-3  # for so small an epsilon the first grid is coarse
    prices = (max(epsilon_of(one, *asked, least / n, epsilon) for one in parts) for n in (2e4, 6e4, 2e5, 2e6))
    fits, near = (cost := next(prices)) <= epsilon, cost < (2 * epsilon + 1e-5 if low else 1.01 * epsilon)
    with contextlib.suppress(Stop, MemoryError):  # finer grids, each formed when it is asked for, only ever confirm
        fits = fits or (near and any(price <= epsilon for price in prices))
    need(fits, f"epsilon {epsilon:.6g} is claimed, {cost:.6g} was found", "NOT COVERED" if near and low else "REJECTED")
    need(claim["lower"] is None or claim["lower"] <= cost, "the lower bound that is claimed is above epsilon")
    signed, beside = check_signature(folder, facts, key), uncovered(facts, folder)
    need(not (strictly and beside), beside)
    most, whom = math.ceil(claim["epsilon"] * 1e4) / 1e4, "a person" if claim["unit"] == "user" else "a row"
    instead = {"add_remove": "not", "zero_out": "a blank in its place", "replace_one": "another in its place"}
    sure, more = math.ceil(1000 / (1 + math.exp(-most))) / 10, f"\n{beside}." if beside else ""
    public = "".join("\n" + said.format_map(facts[name]) for name, said in FREE.items() if name in facts)
    return f"""epsilon {most:.4f}, delta {claim["delta"]} and {claim["adjacency"]} follow from the events.
In words, delta left out: whoever thinks it equally likely that {whom} is in the data or {instead[claim["adjacency"]]}
can be sure of either to at most {sure} % after all that he learns from this model. {signed}{public}
Not checked: any lower bound, and what {", ".join(SEALED)} say but for canaries in the first.{more}
Nobody has checked that training released what the events say and nothing else from the data, nor what is assumed:
""" + "\n".join(textwrap.fill(text, 100, initial_indent="- ", subsequent_indent="  ") for text in facts["assumptions"])

def main(arguments: list[str]) -> int:
    folder, *options = [one for one in arguments if one != "--strict"] or ["--help"]
    if not os.path.isdir(folder) or (options and not re.fullmatch("--key\n[0-9a-fA-F]{64}", "\n".join(options))):
        print("use: verify.py FOLDER (that is there) [--key PUBLIC_KEY, which has 64 hexadecimal digits] [--strict]")
        return 2
    try:
        verdict = ["ACCEPTED", check(Path(folder), options[1] if options else None, "--strict" in arguments)]
    except Stop as stop:
        verdict = [*stop.args]
    except FileNotFoundError as error:
        verdict = ["REJECTED", f"{os.path.basename(error.filename)} is not in the folder"]
    except Exception as error:  # whatever it is: what cannot be followed supports no claim
        said = "".join(x if x.isprintable() else ascii(x)[1:-1] for x in f"{type(error).__name__} {error}"[:300])
        own = isinstance(error, MemoryError | PermissionError)  # of whoever reads
        verdict = ["NOT COVERED" if own else "REJECTED: it cannot be followed", said]
    print(*verdict, sep=": ")
    return int(verdict[0] != "ACCEPTED")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
