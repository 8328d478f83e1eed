"""``make bench``: costs of the portal, compared with those of its components, on the real demo.

Each module measures a single thing; ``__main__`` starts the demo's cluster and runs them in turn.
"""

import sys
from pathlib import Path

# Modules of the tests import each other by bare names, as with pytest's `pythonpath`.
_TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(_TESTS), *(str(folder) for folder in sorted((_TESTS / "support").iterdir()))]
