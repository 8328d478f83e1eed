"""The modules that a notebook surely imports, read from its text."""

from __future__ import annotations

from typing import Any

import pytest
from portal_session.notebooks import needed_modules as needed
from portal_session.notebooks.needed_modules import needed_modules


def notebook(*cells: Any, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": metadata,
        "cells": [{"cell_type": "code", "source": text} for text in cells],
    }


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["import os, numpy as np", "from torch.nn import Linear"], ["os", "numpy", "torch"]),
        (["%matplotlib inline\nimport pandas\n!ls", "%%time\nimport scipy"], ["pandas", "scipy"]),
        (["import a.b.c\nimport a", ["import ", "b"]], ["a", "b"]),
        # Each of these has another way out.
        (["try:\n    import cudf\nexcept ImportError:\n    import pandas"], []),
        (["if gpus:\n    import dask_cudf"], []),
        (["def late():\n    import lazy"], []),
        (["from . import sibling", "%%bash\nimport x", "import ("], []),
        (["import torch", "%pip install torch"], []),
        (["import torch", "!uv pip install torch"], []),
        (["import sys; sys.path.insert(0, 'lib')", "import torch"], []),
        (["# import a", "'import b'"], []),
    ],
)
def test_what_is_surely_imported(cells: list[Any], names: list[str]) -> None:
    assert needed_modules(notebook(*cells)) == names


def test_only_of_python() -> None:
    assert needed_modules(notebook("import torch", kernelspec={"language": "R"})) == []
    assert needed_modules(notebook("import torch", kernelspec={"language": "python"})) == ["torch"]
    text = {"cell_type": "markdown", "source": "import torch"}
    assert needed_modules({"metadata": {}, "cells": [text]}) == []


def test_it_is_bounded() -> None:
    many = notebook(*(f"import m{number}" for number in range(900)))
    assert len(needed_modules(many)) == needed.MOST
    assert needed_modules(notebook("import a\n" + "#" * 200_000)) == []
    assert needed_modules(notebook("(" * 50_000, "import a")) == ["a"]
    assert needed_modules(notebook(f"import {'x' * 500}", "import \u00e4")) == []
