"""Do the examples of a batch stay apart in a model? A proof for what it does, and a look at whether it does that.

recorder    what a model does, operator by operator, while it runs (`passes`, `interception`)
program     that as data, for batches of every size
spans       modules that are run again, and what ran inside
labels      where the examples are in a tensor
registry    rules for operators, by name; they are in `rules/`
propagate   from operator to operator: the proof
examine     programs and proofs from batches of random rows
copies      models that private rows are run through
memory      what a model holds beside its parameters
watched     engines that are looked at while they run
"""

from discreet.clipping.separation import recorder
from discreet.clipping.separation.copies import Twin, Twins, copied
from discreet.clipping.separation.examine import Mixes, Run, examined, proved, recorded
from discreet.clipping.separation.memory import Kept, Memory
from discreet.clipping.separation.watched import Apart, Function, Proofs, Together

__all__ = [
    "Apart",
    "Function",
    "Kept",
    "Memory",
    "Mixes",
    "Proofs",
    "Run",
    "Together",
    "Twin",
    "Twins",
    "copied",
    "examined",
    "proved",
    "recorded",
    "recorder",
]
