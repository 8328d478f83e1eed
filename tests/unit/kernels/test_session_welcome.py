"""The notebook on which a person's first session opens."""

from __future__ import annotations

from pathlib import Path

import pytest
from portal_session.home.welcome import NAME, VARIABLE, welcome

PAGE = "JUPYTERHUB_DEFAULT_URL"


@pytest.fixture
def site_notebook(tmp_path: Path) -> str:
    path = tmp_path / "site.ipynb"
    path.write_text('{"cells": []}')
    return str(path)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


def opened(source: str, home: Path, **more: str) -> dict[str, str]:
    environ = {VARIABLE: source, **more} if source else dict(more)
    welcome(environ, home)
    assert VARIABLE not in environ  # kernels and terminals do not see it
    return environ


def test_the_first_session_opens_on_a_copy(site_notebook: str, home: Path) -> None:
    assert opened(site_notebook, home) == {PAGE: "/lab/tree/README.ipynb"}
    assert (home / NAME).read_text() == '{"cells": []}'


def test_later_sessions_open_as_usual_even_where_the_notebook_was_removed(
    site_notebook: str, home: Path
) -> None:
    (home / ".portal").mkdir()
    assert opened(site_notebook, home) == {}
    assert not (home / NAME).exists()


def test_a_file_of_that_name_stays_as_it_is(site_notebook: str, home: Path) -> None:
    (home / NAME).write_text("mine")
    assert opened(site_notebook, home) == {}
    assert (home / NAME).read_text() == "mine"


def test_no_link_of_that_name_is_followed(site_notebook: str, home: Path) -> None:
    (home / NAME).symlink_to(home / "elsewhere")
    assert opened(site_notebook, home) == {}
    assert not (home / "elsewhere").exists()


def test_a_session_that_opens_something_else_has_none(site_notebook: str, home: Path) -> None:
    assert opened(site_notebook, home, **{PAGE: "/portal/tensorboard"}) == {
        PAGE: "/portal/tensorboard"
    }
    assert not (home / NAME).exists()
    assert opened("", home) == {}


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"x" * 1_000_001])
def test_a_notebook_that_cannot_be_copied_is_told_and_nothing_is_left(
    tmp_path: Path, home: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "site.ipynb"
    if content is not None:
        source.write_bytes(content)
    assert opened(str(source), home) == {}
    assert not (home / NAME).exists()
    assert "welcome notebook" in capsys.readouterr().err
