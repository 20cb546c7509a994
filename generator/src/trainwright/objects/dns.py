"""Names as DNS takes them: what the API server and controllers hold names of objects to.

https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

from __future__ import annotations

import re

LABEL = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")  # RFC 1123
LABEL_1035 = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")  # starts with a letter
SUBDOMAIN = re.compile(rf"{LABEL.pattern}(\.{LABEL.pattern})*")
