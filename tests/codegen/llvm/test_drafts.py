"""Functions that were added for a draft of a program: what of them is compiled."""

import pytest

from hloom.codegen.llvm import compile as under_test
from hloom.codegen.llvm.compile import CodeCompiler
from tests.codegen.llvm.test_compile import (
    FUNCTION,
    HOST,
    compiled,
    functions,
    pool,
    small_batches,
)

__all__ = ["pool", "small_batches"]


@pytest.mark.parametrize("threads", (0, 2))
def test_batches_of_a_draft_are_compiled_once(small_batches, pool, monkeypatch, threads):
    texts, made = functions(7), []

    def noted(self, real=under_test.Batch._object):
        made.append(self.what)
        return real(self)

    monkeypatch.setattr(under_test.Batch, "_object", noted)
    alone = compiled(texts)
    made.clear()
    with CodeCompiler(HOST, 1, threads) as code:
        for name, text in [*texts.items(), ("gone", FUNCTION.format(name="gone", number=99))]:
            code.add(name, text)
        code.begin_again()
        for name, text in texts.items():
            code.add(name, text)
        assert code.objects() == alone
    assert len(made) == len(set(made)) <= len(alone) + 1
    assert "gone" not in made or threads


def test_another_draft_is_another_program(small_batches, pool):
    first, second = functions(4), functions(9)
    del second["f1"]
    with CodeCompiler(HOST, 1, 0) as code:
        for name, text in first.items():
            code.add(name, text)
        code.begin_again()
        for name, text in second.items():
            code.add(name, text)
        assert code.objects() == compiled(second)
