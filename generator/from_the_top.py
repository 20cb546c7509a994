"""Builds generator/ when somebody installs the top of the repository, as pre-commit does.

https://pre-commit.com/#python: its hooks are installed from the root of a clone and from nowhere
else. The root's pyproject.toml names this module; to a frontend it is hatchling, one folder down.
"""

import os

os.chdir("generator")  # PEP 517 starts every hook in the folder of that pyproject.toml

from hatchling.build import *  # noqa: E402, F403
