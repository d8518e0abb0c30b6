"""No damaged saved program is taken for a whole one, and none crashes a loader: a sample."""

import pytest

from hloom.plugin import embedded
from tests.fuzz.check_saved import FORMS
from tests.fuzz.run_saved import changed_bytes, wrong_under_right_sums


@pytest.mark.parametrize("form", sorted(FORMS))
def test_every_changed_byte_is_refused(form):
    assert changed_bytes(form, 1_000, seed=1) == []


@pytest.mark.parametrize("form", sorted(FORMS))
def test_wrong_things_under_right_checksums_crash_nothing(form):
    taken, refused = wrong_under_right_sums(form, 500, seed=1)
    assert taken > 20 and refused > 20


@pytest.mark.parametrize("form", sorted(FORMS))
def test_every_cut_and_every_tail_is_refused(form):
    make, load = FORMS[form]
    for data in make():
        for size in {*range(0, len(data), 997), len(data) - 1, 7, 8, 16, 63, 64}:
            with pytest.raises(Exception, match=r"no saved|cut off|bytes has|checksum"):
                load(data[:size])
        for tail in (b"\0", bytes(64), b"x" * 100, data):
            with pytest.raises(Exception, match="bytes has"):
                load(data + tail)


def test_a_compiler_in_the_process_changes_nothing():
    was_on = embedded.is_on()
    embedded.start()
    try:
        assert changed_bytes("native", 20, seed=2) == []
        assert embedded.is_on()
    finally:
        if not was_on:
            embedded.stop()
