"""Whether two runs are the same training, whatever kinds of objects they are made of."""

from trainwright.equivalence.comparison import Difference, differences
from trainwright.equivalence.form import Run, of

__all__ = ["Difference", "Run", "differences", "of"]
