"""Whether two runs are the same training, whatever kinds of objects they are made of."""

from trainwright.equivalence.comparison import Difference, differences
from trainwright.equivalence.form import NormalForm, normal_form

__all__ = ["Difference", "NormalForm", "differences", "normal_form"]
