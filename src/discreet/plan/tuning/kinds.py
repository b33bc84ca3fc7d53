"""The kinds of search that a plan may have."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from discreet.plan.tuning.disjoint_parts import PartsSearch
from discreet.plan.tuning.random_stopping import Search

AnySearch = Annotated[Search | PartsSearch, Field(discriminator="kind")]
