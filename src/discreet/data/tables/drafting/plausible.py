"""Usual ranges of columns by name (age, weight). A draft proposes them; no value is looked at."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """From `low` to `high`; `log`: with a long tail."""

    low: float
    high: float
    log: bool = False


_BY_WORDS: dict[str, Range] = {
    "age, alter, alter in jahren, age years": Range(0, 120),
    "year, jahr, birth year, year of birth, geburtsjahr, jahrgang": Range(1900, 2100),
    "month, monat": Range(1, 12),
    "day, tag, day of month": Range(1, 31),
    "weekday, wochentag, day of week": Range(0, 7),
    "hour, stunde, hour of day, uhrzeit": Range(0, 24),
    "minute": Range(0, 60),
    "percent, percentage, prozent, pct, %": Range(0, 100),
    "probability, wahrscheinlichkeit, share, anteil, fraction, proportion, quote": Range(0, 1),
    "hours per week, hours worked, wochenstunden, arbeitsstunden": Range(0, 168),
    "height cm, height, körpergröße, größe, größe cm, groesse, koerpergroesse, cm": Range(30, 250),
    "height m, größe m": Range(0.3, 2.5),
    "height in, height inches": Range(12, 100),
    "weight kg, weight, gewicht, gewicht kg, körpergewicht, kg": Range(0, 300),
    "weight lb, weight lbs, weight pounds": Range(0, 660),
    "birth weight, geburtsgewicht": Range(300, 6500),
    "bmi, body mass index": Range(10, 80),
    "waist, taille, taillenumfang, bauchumfang": Range(30, 250),
    "blood pressure, blutdruck, bp, pressure, systolic, systolisch, sbp, rr systolisch, ap hi": Range(40, 260),
    "diastolic, diastolisch, dbp, rr diastolisch, ap lo": Range(20, 160),
    "pulse, puls, heart rate, herzfrequenz, hr, bpm": Range(20, 250),
    "respiratory rate, atemfrequenz": Range(0, 80),
    "oxygen saturation, saturation, sauerstoffsättigung, spo2, sao2": Range(50, 100),
    "body temperature, körpertemperatur, fever, fieber, temp c, temperatur c": Range(30, 45),
    "glucose, glukose, blutzucker, blood sugar, bz": Range(0, 800),
    "hba1c": Range(3, 20),
    "cholesterol, cholesterin, ldl, triglycerides, triglyzeride, chol": Range(0, 1000),
    "hdl": Range(0, 200),
    "creatinine, kreatinin, crea": Range(0, 20),
    "hemoglobin, haemoglobin, hämoglobin, hb": Range(0, 25),
    "leukocytes, leukozyten, wbc": Range(0, 200),
    "platelets, thrombozyten": Range(0, 2000),
    "crp": Range(0, 500),
    "pain, schmerz, nrs, vas, pain score": Range(0, 10),
    "length of stay, liegedauer, verweildauer, los": Range(0, 365),
    "income, salary, wage, einkommen, gehalt, lohn, earnings, verdienst": Range(0, 1_000_000, log=True),
    "price, preis, cost, costs, kosten, charge, charges, amount, betrag": Range(0, 1_000_000, log=True),
    "children, kinder, number of children, siblings, geschwister": Range(0, 15),
    "household size, haushaltsgröße, persons, personen": Range(1, 20),
    "rooms, zimmer, bedrooms": Range(0, 20),
    "education years, education num, years of education, schuljahre": Range(0, 25),
    "rating, stars, bewertung, sterne": Range(1, 5),
    "latitude, lat, breitengrad": Range(-90, 90),
    "longitude, lon, lng, längengrad": Range(-180, 180),
    "cigarettes per day, zigaretten pro tag": Range(0, 100),
}

PLAUSIBLE: dict[tuple[str, ...], Range] = {
    tuple(phrase.split()): found for phrases, found in _BY_WORDS.items() for phrase in phrases.split(", ")
}
"""By the words of a name, in lower case."""


def plausible(name: str) -> Range | None:
    """The range for a column of this name, by the longest phrase that it contains, its unit included: Weight [kg]."""
    spaced = re.sub(r"(?<=[a-zäöüß])(?=[A-Z])", " ", name)
    words = tuple(re.sub(r"[^\w%]|_", " ", spaced).lower().split())
    found = [phrase for phrase in PLAUSIBLE if _within(phrase, words)]
    return PLAUSIBLE[max(found, key=lambda phrase: (len(phrase), len("".join(phrase))))] if found else None


def _within(phrase: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return any(words[start : start + len(phrase)] == phrase for start in range(len(words)))
