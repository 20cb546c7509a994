"""Whether two runs are the same training, although of different kinds of objects."""

from trainwright.importing.equivalence.comparison import differences, in_words, sentence
from trainwright.importing.equivalence.form import NormalForm

__all__ = ["NormalForm", "differences", "in_words", "sentence"]
