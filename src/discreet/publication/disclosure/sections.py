"""The privacy statement: the questions of NIST SP 800-226, answered by the certificate and by the data's holder.

Its sections are the layers of that guideline's pyramid, from the top: unit of privacy, epsilon, algorithm, accuracy and
bias, side channels, trust model, data collection. The certificate knows the upper ones, the holder the lower ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from discreet.publication.disclosure import facts_in_words as says
from discreet.publication.disclosure.facts_in_words import Certified
from discreet.publication.disclosure.holder import Holder
from discreet.publication.pages.formats import number


@dataclass(frozen=True, slots=True)
class Entry:
    """A question with its answer; None if the holder has not given it. `certificate`: the certificate says it."""

    question: str
    answer: str | None
    certificate: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A layer of the pyramid: a sentence on why it matters, and its entries."""

    title: str
    why: str
    entries: tuple[Entry, ...]


def sections(one: Certified, holder: Holder) -> tuple[Section, ...]:
    """The statement's sections, from the top of the pyramid."""
    return (*_promise(one, holder), _algorithm(one, holder), _accuracy(one, holder), *_around(one, holder))


def _promise(one: Certified, holder: Holder) -> tuple[Section, Section]:
    words, report = one.words, says.answered(one)
    return (
        Section(
            "Unit of privacy",
            "A bound says nothing until it is said for whom it holds.",
            (
                _stated("Protected", f"{words.unit}. {words.several}"),
                _stated("Neighbours", says.neighbours(one)),
                Entry("In the data", holder.unit),
            ),
        ),
        Section(
            "Epsilon",
            "It bounds what one unit can change; it is comparable only at the same unit and adjacency.",
            (
                _stated("Guarantee", report["Guarantee"]),
                _stated("Its meaning", says.meaning(one)),
                Entry("Why this epsilon", holder.epsilon),
                _stated("Covered", report["Looks at the data that are covered"]),
                _stated("Not covered", report["Looks at the data that are not covered"]),
                Entry("Other releases from this data", holder.other_releases),
            ),
        ),
    )


def _algorithm(one: Certified, holder: Holder) -> Section:
    report = says.answered(one)
    return Section(
        "Algorithm",
        "The guarantee holds if the algorithm has the proved property, and the program is that algorithm.",
        (
            _stated("Mechanism", says.algorithm(one)),
            _stated("Accounting", says.accounting(one)),
            _stated("Implementation", says.implementation(one)),
            _stated("Declared public", report["Declared public"]),
            _stated("Not private", report["Not private"]),
            Entry("How settings were chosen", holder.settings),
            _stated("To check it", f"Run {report['To check it']}"),  # a command has no capital letter
        ),
    )


def _accuracy(one: Certified, holder: Holder) -> Section:
    found, groups = says.accuracy(one), says.by_subgroup(one)
    return Section(
        "Accuracy and bias",
        "Clipping and noise cost accuracy, most of all for small groups.",
        (
            Entry(
                "On public rows",
                found or "no figure, for there were no public rows",
                True,
            ),
            *([] if groups is None else [_stated("By subgroup", f"{groups} (95 % intervals)")]),
            Entry("Accurate enough for its use", holder.accuracy),
            Entry("Groups for whom it works less well", holder.bias),
        ),
    )


def _around(one: Certified, holder: Holder) -> tuple[Section, Section, Section]:
    report = says.answered(one)
    kept = (
        "what an observer of the training itself learns (times, memory, traffic, logs) is outside the bound; of the "
        "run, releases and public figures alone are in the folder"
    )
    size = f"the declared population, {number(one.plan.population)} {one.words.many}, is public. {says.size(one)}"
    return (
        Section(
            "Side channels",
            "Whoever watches the computation can learn what no output says.",
            (Entry("Outside the bound", kept, True), Entry("Who could watch", holder.side_channels)),
        ),
        Section(
            "Trust model",
            "Somebody sees the raw data; the bound is about everybody else.",
            (_stated("Setting", report["Setting"]), Entry("Who is trusted, and why", holder.trust)),
        ),
        Section(
            "Data collection",
            "No release protects data that leaks before it is used.",
            (
                _stated("Size", size),
                Entry("How it was collected", holder.collection),
                Entry("How it is kept", holder.protection),
            ),
        ),
    )


def _stated(question: str, answer: str) -> Entry:
    return Entry(question, answer, certificate=True)
