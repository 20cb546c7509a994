"""Whether two runs are the same training, although of different kinds of objects."""

from trainwright.importing.equivalence.comparison import Difference, differences
from trainwright.importing.equivalence.form import NormalForm

__all__ = ["Difference", "NormalForm", "differences"]
