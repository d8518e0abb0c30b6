"""What the options of passes on asynchronous collectives may name."""

import pytest

from hloom.base.diagnostics import UsageError
from hloom.passes import pass_named


@pytest.mark.parametrize(
    ("name", "option", "value", "said"),
    [
        ("async-collective-annotator", "disabled", ("ALLREDUCES",), "'ALLREDUCES' is no kind"),
        ("async-collective-creator", "kinds", ("all-reduces",), "'all-reduces' is no collective"),
    ],
)
def test_unknown_kinds_are_refused(name, option, value, said):
    with pytest.raises(UsageError, match=said):
        pass_named(name, **{option: value})


def test_every_kind_can_be_named():
    kinds = ("ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "COLLECTIVEBROADCAST", "ALLTOALL")
    kinds += ("COLLECTIVEPERMUTE", "RAGGEDALLTOALL", "ALLCOLLECTIVES")
    assert pass_named("async-collective-annotator", disabled=kinds)
