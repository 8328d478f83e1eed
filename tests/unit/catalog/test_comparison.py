"""What differs between two versions: lines, and packages."""

from __future__ import annotations

from machine_clock import awake

from portal.catalog.versions.comparison import MAX_LINES, Change, changed_lines, changed_packages


def signs(old: str, new: str) -> list[str]:
    return [f"{line.change[0]} {line.text}" for line in changed_lines(old, new)]


def test_each_line_is_there_once_and_knows_its_place_in_both():
    lines = changed_lines(
        "name: a\ntitle: A\norder: 1\n", "name: a\ntitle: B\ntags: [x]\norder: 1\n"
    )
    assert [(line.change, line.text, line.old, line.new) for line in lines] == [
        (Change.SAME, "name: a", 1, 1),
        (Change.REMOVED, "title: A", 2, None),
        (Change.ADDED, "title: B", None, 2),
        (Change.ADDED, "tags: [x]", None, 3),
        (Change.SAME, "order: 1", 3, 4),
    ]


def test_nothing_and_everything():
    assert changed_lines("", "") == ()
    assert signs("", "a\nb") == ["a a", "a b"]
    assert signs("a\nb", "") == ["r a", "r b"]
    assert signs("a\nb", "a\nb") == ["s a", "s b"]


def test_long_texts_do_not_keep_the_service_busy():
    old = "\n".join(f"old {n}" for n in range(MAX_LINES + 1))
    new = "\n".join(f"new {n}" for n in range(MAX_LINES + 1))
    begin = awake()
    assert len(changed_lines(old, new)) == 2 * (MAX_LINES + 1)
    assert awake() - begin < 2


def test_packages_that_came_went_and_changed():
    changes = changed_packages(
        ["numpy==1.26.4", "Typing_Extensions==4.1", "torch @ file:///opt/torch.whl", "six==1.0"],
        ["numpy==2.1.0", "typing-extensions==4.1", "torch @ file:///opt/torch.whl", "rich==13.0"],
    )
    assert [(one.name, one.change, one.old, one.new) for one in changes] == [
        ("numpy", Change.CHANGED, "1.26.4", "2.1.0"),
        ("rich", Change.ADDED, "", "13.0"),
        ("six", Change.REMOVED, "1.0", ""),
    ]


def test_packages_that_pip_lists_in_odd_ways():
    changes = changed_packages(["-e git+https://x/y#egg=z", "a"], ["a"])
    assert [(one.name, one.change) for one in changes] == [
        ("-e git+https://x/y#egg=z", Change.REMOVED)
    ]
