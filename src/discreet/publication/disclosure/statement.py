"""The privacy statement as a page: self-contained HTML that prints on A4."""

from __future__ import annotations

from discreet.publication.disclosure.facts_in_words import Certified
from discreet.publication.disclosure.holder import Holder, unanswered
from discreet.publication.disclosure.sections import sections
from discreet.publication.pages.certificate_facts import certified_epsilon
from discreet.publication.pages.formats import html_template


def statement_page(one: Certified, holder: Holder) -> str:
    """The statement of a verified folder, with the holder's answers; what has no answer is marked as such."""
    return html_template("statement.html.j2").render(
        title=holder.name or one.purpose.title,
        holder=holder,
        claim=one.facts["claim"],
        epsilon=certified_epsilon(one.facts),
        unit=one.words.unit,
        sections=sections(one, holder),
        open=unanswered(holder),
        version=one.facts["software"]["discreet"],
        digest=one.digest,
    )
