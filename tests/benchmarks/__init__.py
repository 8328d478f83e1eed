"""``make bench``: what the portal costs, beside what it stands on, on the real demo.

Each module measures one thing; ``__main__`` starts the demo's cluster and runs them in turn.
"""

import sys
from pathlib import Path

# The modules of the tests import each other by bare names, as pytest's `pythonpath` lets them.
_TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(_TESTS), *(str(folder) for folder in sorted((_TESTS / "support").iterdir()))]
