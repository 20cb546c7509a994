"""Whether two runs are the same training, whatever kinds of objects they are made of."""

from trainwright.importing.equivalence.comparison import Difference, differences
from trainwright.importing.equivalence.form import NormalForm, normal_form

__all__ = ["Difference", "NormalForm", "differences", "normal_form"]
