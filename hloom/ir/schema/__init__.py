"""The protobuf messages of HLO: `schema.HloModuleProto`, `schema.LiteralProto`, and so on.

`data.proto` and `hlo.proto` say what the messages are; `hlo.binpb` is their compiled descriptor set
(`make proto`). It is loaded into a descriptor pool of our own when the first message is asked for.
So hloom lives in one process with TensorFlow or another library that registers messages of the
same names, works with any protobuf runtime, and costs nothing until a proto is read or written.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool

PACKAGE = "xla"


@cache
def pool() -> "DescriptorPool":
    """Our private pool, holding every file of the schema."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(Path(__file__).with_name("hlo.binpb").read_bytes())
    pool_ = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool_.Add(file)  # imports come before the files that need them
    return pool_


@cache
def message(name: str) -> Any:
    """The message class of this name inside the package, such as `OpSharding`; else `KeyError`."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def enum_numbers(name: str) -> dict[str, int]:
    """Number by name, of the enum of this name, such as `PrecisionConfig.Precision`."""
    enum = pool().FindEnumTypeByName(f"{PACKAGE}.{name}")
    return {value.name: value.number for value in enum.values}


@cache
def enum_names(name: str) -> dict[int, str]:
    """Name by number, of the enum of this name."""
    return {number: value for value, number in enum_numbers(name).items()}


def __getattr__(name: str) -> Any:
    if name[:1].isupper():
        try:
            return message(name)
        except KeyError:
            pass
    raise AttributeError(f"module {__name__} has no message {name}")
