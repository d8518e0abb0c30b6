"""Every opcode can be lowered, or no instruction of it is left when the passes have run."""

from hloom.ir.op import OPS
from hloom.targets.cpu.lowering import CPU_LOWERS
from hloom.targets.cpu.pipeline import LOWERED, cpu_pipeline


def gone() -> set[str]:
    return {opcode for fact in LOWERED for opcode in fact.opcodes}


def test_every_opcode_is_lowered_or_gone():
    import hloom.targets.cpu.target  # noqa: F401  registers the lowerings

    missing = set(OPS) - set(CPU_LOWERS) - gone()
    assert not missing, "write @CPU_LOWERS.of(...), or a pass that removes it and says `gives`"
    assert set(CPU_LOWERS) <= set(OPS)


def test_what_is_gone_is_promised_by_the_pipeline():
    assert gone() == {o for fact in cpu_pipeline().claims().gives for o in fact.opcodes}
    assert {"scan", "rng", "batch-norm-grad", "ragged-dot", "get-dimension-size"} <= gone()
