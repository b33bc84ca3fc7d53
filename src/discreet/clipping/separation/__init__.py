"""Do the examples of a batch stay apart in a model? A proof for its program, and checks that the model runs it.

recording/      the operators of a model while it runs, and the program that they are
labels          where the examples are in a tensor
registry        the table of rules for operators, by name; the rules are in `rules/`
propagate       labels from operator to operator
proof           the proof, from labels
computed_again  whether checkpoints compute again what they computed at first
saved_memory    what may be written to after it was saved for a derivative
examine         programs and proofs from batches of random rows
copies          copies of the model, through which private rows run
glance          a quick answer whether modules hold the same objects
memory          all that a model holds beside its parameters
known_results   results, kept with all that they were computed from
function        functions of rows, such as transforms, checked in the same way
watched         engines that are checked while they run
"""

from discreet.clipping.separation.copies import Twin, Twins, copied
from discreet.clipping.separation.examine import Mixes, Run, examined, proved, recorded
from discreet.clipping.separation.function import Function
from discreet.clipping.separation.known_results import KnownResults, Remembered
from discreet.clipping.separation.memory import Memory
from discreet.clipping.separation.recording import recorder
from discreet.clipping.separation.watched import Apart, Proofs, Together

__all__ = [
    "Apart",
    "Function",
    "KnownResults",
    "Memory",
    "Mixes",
    "Proofs",
    "Remembered",
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
