"""A module that configurations of sites still import: for one version, with a warning."""

from __future__ import annotations

import importlib
import sys

import pytest

from portal.paths import data_path


def test_the_former_name_of_paths_is_imported_with_a_warning() -> None:
    sys.modules.pop("portal.where", None)
    with pytest.warns(FutureWarning, match=r"portal\.paths"):
        former = importlib.import_module("portal.where")
    assert former.data_path is data_path
