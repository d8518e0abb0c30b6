"""Files and snapshots: every form by every name, log prefixes, safe writing."""

import gzip
import os
import stat

import pytest

import hloom
from hloom.base.diagnostics import HloError, ParseError, ProtoError, UsageError
from hloom.ir import schema
from hloom.ir.proto import (
    Snapshot,
    load,
    load_text,
    module_from_bytes,
    module_to_bytes,
    module_to_proto,
    save,
    snapshot_from_bytes,
    snapshot_from_text,
    snapshot_to_bytes,
    snapshot_to_text,
)
from hloom.ir.proto.files import BUFFERS, without_log_prefixes
from hloom.ir.text import PrintOptions, parse_module, show_module
from hloom.types.literal import Literal

TEXT = """HloModule m, replica_count=2, entry_computation_layout={(f32[2]{0}, s32[])->f32[2]{0}}

ENTRY %e (p: f32[2], s: s32[]) -> f32[2] {
  %p = f32[2]{0} parameter(0)
  %s = s32[] parameter(1)
  %c = s32[12]{0} constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
  ROOT %n = f32[2]{0} negate(%p)
}
"""
PARTITIONS = (
    (Literal.of([1.0, 2.0]), Literal.of(3)),
    (Literal.of([True, False, True]), Literal.tuple([Literal.of([1, -2], "s4"), Literal.of(5)])),
)


@pytest.fixture
def module():
    return parse_module(TEXT)


def text_of(module):
    return show_module(module, PrintOptions(large_constants=True))


@pytest.mark.parametrize(
    "name", ["a.hlo", "a.txt", "a.pb", "a.hlo.pb", "a.pbtxt", "a.textproto", "a.PB", "a.pb.gz"]
)
def test_files_of_one_module_load_equal_modules(module, tmp_path, name):
    path = tmp_path / name
    save(module, path)
    loaded = load(path)
    assert text_of(loaded.module) == text_of(module)
    assert loaded.format == ("text" if name in ("a.hlo", "a.txt") else "proto")
    assert loaded.arguments == ()
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("extension", [".pb", ".pbtxt", ".pb.gz", ".textproto"])
@pytest.mark.parametrize("kind", ["snapshot", "unoptimized-snapshot", "custom-snapshot"])
def test_snapshots_of_every_form(module, tmp_path, extension, kind):
    path = tmp_path / f"s{extension}"
    parts = PARTITIONS[:1] if kind == "snapshot" else PARTITIONS
    result, platform = (Literal.of([-1.0, -2.0]), "Host") if kind == "snapshot" else (None, "")
    snapshot = Snapshot(module, parts, result, platform)
    if kind == "custom-snapshot" and extension in (".pbtxt", ".textproto"):
        with pytest.raises(UsageError):
            save(module, path, kind, snapshot=snapshot)
        return
    save(module, path, kind, snapshot=snapshot)
    loaded = load(path)
    assert loaded.format == kind
    assert loaded.partitions == parts
    assert loaded.arguments == PARTITIONS[0]
    assert (loaded.result, loaded.execution_platform) == (result, platform)
    assert text_of(loaded.module) == text_of(module)


def test_snapshots_as_bytes_and_text(module):
    snapshot = Snapshot(module, PARTITIONS)
    for kind in ("unoptimized-snapshot", "custom-snapshot"):
        back = snapshot_from_bytes(snapshot_to_bytes(snapshot, kind), kind)
        assert back.partitions == PARTITIONS
        assert text_of(back.module) == text_of(module)
    back = snapshot_from_text(
        snapshot_to_text(snapshot, "unoptimized-snapshot"), "unoptimized-snapshot"
    )
    assert back.partitions == PARTITIONS
    with pytest.raises(UsageError):
        snapshot_to_bytes(snapshot, "snapshot")


def test_custom_serialisation_is_a_message_and_raw_bytes(module):
    """The layout of the file, byte by byte, without our own reader."""
    data = snapshot_to_bytes(Snapshot(module, ((Literal.of([1.0, 2.0]),),)), "custom-snapshot")
    length = shift = at = 0
    while True:
        length |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            break
    head = schema.HloUnoptimizedSnapshot()
    head.ParseFromString(data[at : at + length])
    assert not head.partitions[0].arguments
    raw = data[at + length :]
    assert head.partitions[0].arguments_descriptors[0].argument_size_bytes == len(raw)
    size = int.from_bytes(raw[:8], "little")
    shape = schema.ShapeProto()
    shape.ParseFromString(raw[8 : 8 + size])
    assert list(shape.dimensions) == [2]
    assert raw[8 + size :] == b"\0\0\x80\x3f\0\0\0\x40"


def test_broken_snapshots(module):
    data = snapshot_to_bytes(Snapshot(module, PARTITIONS), "custom-snapshot")
    for end in range(0, len(data), 11):
        with pytest.raises(ProtoError):
            snapshot_from_bytes(data[:end], "custom-snapshot")
    with pytest.raises(ProtoError, match="follow"):
        snapshot_from_bytes(data + b"x", "custom-snapshot")
    message = schema.HloUnoptimizedSnapshot(version=3)
    head = message.SerializeToString()
    with pytest.raises(ProtoError, match="version"):
        snapshot_from_bytes(bytes([len(head)]) + head, "custom-snapshot")


def test_buffer_assignment_survives(module, tmp_path):
    whole = schema.HloProto()
    whole.hlo_module.CopyFrom(module_to_proto(module))
    whole.buffer_assignment.buffer_allocations.add(index=0, size=8, is_thread_local=True)
    whole.buffer_assignment.logical_buffers.add(id=1, size=8).defined_at.instruction_id = 3
    path = tmp_path / "after.hlo.pb"
    path.write_bytes(whole.SerializeToString(deterministic=True))
    loaded = load(path)
    assert loaded.format == "hlo-proto"
    assert loaded.module.carried[BUFFERS]
    save(loaded.module, path, "hlo-proto")
    assert path.read_bytes() == whole.SerializeToString(deterministic=True)


def test_content_wins_over_a_wrong_extension(module, tmp_path):
    (tmp_path / "text.pb").write_text(TEXT)
    assert load(tmp_path / "text.pb").format == "text"
    (tmp_path / "binary.hlo").write_bytes(module_to_bytes(module))
    assert load(tmp_path / "binary.hlo").format == "proto"


def test_counts_can_be_replaced(module, tmp_path):
    save(module, tmp_path / "a.pb")
    loaded = load(tmp_path / "a.pb", replica_count=8, num_partitions=4).module
    assert (loaded.replica_count, loaded.num_partitions) == (8, 4)
    assert load(tmp_path / "a.pb").module.replica_count == 2
    with pytest.raises(UsageError):
        load(tmp_path / "a.pb", replica_count=0)


def test_unknown_extensions_are_refused(tmp_path):
    with pytest.raises(UsageError) as caught:
        load(tmp_path / "a.foo")
    for extension in (".hlo", ".txt", ".pb", ".pbtxt", ".textproto"):
        assert extension in str(caught.value)
    with pytest.raises(UsageError, match="StableHLO"):
        load(tmp_path / "a.mlir")
    with pytest.raises(UsageError, match="No such file"):
        load(tmp_path / "a.pb")
    with pytest.raises(UsageError):
        load(tmp_path / "a")


@pytest.mark.parametrize(
    "name, data",
    [
        ("a.pb", b""),
        ("a.pb", b"\x01\x02\x03"),
        ("a.pbtxt", b"hello"),
        ("a.pbtxt", b"\xff\xfe"),
        ("a.hlo", b"hello"),
        ("a.hlo", b"\xff"),
        ("a.hlo", b""),
        ("a.pb.gz", b"not gzip"),
        ("a.pb.gz", gzip.compress(b"x" * 100, mtime=0)[:-9]),
    ],
)
def test_broken_files_are_errors_of_hloom(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(HloError):
        load(tmp_path / name)


def test_errors_name_the_file(module, tmp_path):
    path = tmp_path / "cut.pb"
    path.write_bytes(module_to_bytes(module)[:-5])
    with pytest.raises(ProtoError, match=r"cut\.pb"):
        load(path)
    path = tmp_path / "bad.hlo"
    path.write_text(TEXT.replace("negate", "negatte"))
    with pytest.raises(ParseError) as caught:
        load(path)
    assert caught.value.location.file.endswith("bad.hlo")


GLOG = "I0521 12:04:45.883483    1509 service.cc:186] "
ABSL = "W0000 00:00:1795227649.768189   16710 hlo_module.cc:767] "
TSL = "2024-05-21 12:04:45.883483: I external/xla/xla/service/dump.cc:12] "


@pytest.mark.parametrize("prefix", [GLOG, ABSL, TSL])
def test_log_prefixes_are_stripped(module, prefix):
    pasted = "".join(
        prefix + line + "\n" for line in ["Compiling:", *TEXT.split("\n"), "done"][:-1]
    )
    assert text_of(load_text(pasted).module) == text_of(module)
    assert without_log_prefixes(TEXT) is TEXT


@pytest.mark.parametrize("name", ["m.hlo", "m.txt"])
def test_text_may_begin_with_a_byte_order_mark(module, tmp_path, name):
    path = tmp_path / name
    path.write_text("\ufeff" + TEXT, encoding="utf-8")
    assert text_of(load(path).module) == text_of(module)
    assert text_of(hloom.parse("\ufeff" + TEXT)) == text_of(module)


@pytest.mark.parametrize("prefix", [GLOG, ABSL, TSL])
def test_what_is_pasted_from_a_log_is_parsed(module, prefix):
    pasted = "".join(f"{prefix}{line}\n" for line in TEXT.splitlines())
    assert text_of(hloom.parse(pasted)) == text_of(module)


def test_writing_is_all_or_nothing(module, tmp_path, monkeypatch):
    path = tmp_path / "a.hlo"
    path.write_text("before")
    path.chmod(0o640)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UsageError, match="No space"):
        save(module, path)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["a.hlo"]
    monkeypatch.undo()
    save(module, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert text_of(load(path).module) == text_of(module)


def test_where_nothing_can_be_written(module, tmp_path):
    with pytest.raises(UsageError):
        save(module, tmp_path / "no" / "such" / "folder.pb")
    with pytest.raises(UsageError):
        save(module, tmp_path / "a.pb", "text")
    with pytest.raises(UsageError):
        save(module, tmp_path / "a.hlo", "proto")
    with pytest.raises(UsageError):
        save(module, tmp_path / "a.pb", "jpeg")
    assert not list(tmp_path.iterdir())


def test_text_is_saved_with_all_its_constants(module, tmp_path):
    save(module, tmp_path / "a.hlo")
    assert "10, 11}" in (tmp_path / "a.hlo").read_text()
    assert module_from_bytes(module_to_bytes(module)).entry["c"].attrs.literal.array[11] == 11


@pytest.mark.parametrize(
    ("name", "data", "what", "hint"),
    [
        ("m.memory-usage-report.pb", b"\n\x04\x08\x01\x10\x02", "XLA's report about memory", "pb"),
        ("m-buffer-assignment.txt", b"BufferAssignment:\n", "XLA's report about buffers", "txt"),
        ("a.txt", b"HloLiveRange (max 2):\n", "XLA's report about live ranges", "txt"),
        ("m.dot", b"digraph G {\n}", "a graph for Graphviz", "before_optimizations"),
        ("m.o", b"\x7fELF\x02", "machine code", "load_compiled"),
        ("m.ll", b"; ModuleID = 'm'\n", "LLVM IR", "made from"),
        ("saved_model.pb", b"\x08\x01\x12\x03abc", "a TensorFlow SavedModel", "tensorflow.jit"),
        ("m.onnx", b"\x08\x0a", "an ONNX model", "StableHLO"),
        ("m.pt", b"PK\x03\x04", "a PyTorch file", "torch.compile"),
        ("m.pkl", b"\x80\x05\x95", "a Python pickle", "StableHLO"),
        ("m.pb", b"\x80\x04\x95", "a Python pickle", "StableHLO"),
        ("x.npz", b"PK\x03\x04", "an archive of numpy arrays", "--inputs"),
        ("m.hlo", "HloModule m".encode("utf-16"), "UTF-16 text", "UTF-8"),
        ("m.txt", b"{ lambda ; a:f32[]. let in (a,) }", "a jaxpr", "as_text"),
        ("m.hlo", b"<!DOCTYPE html><html>", "a web page or picture", "dumped beside"),
        ("m.json", b'{"a": 1}', "JSON", "StableHLO"),
    ],
)
def test_a_file_that_is_no_module_is_named_for_what_it_is(name, data, what, hint, tmp_path):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match=f"{what}, not a module of HLO") as caught:
        load(tmp_path / name)
    assert caught.value.rule == "no-module"
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["a.bin", "a", "step.hlo.1", "a.md", "a.dump.bin"])
def test_a_file_of_any_name_is_read_by_what_it_holds(module, tmp_path, name):
    path = tmp_path / name
    for data in (TEXT.encode(), module_to_bytes(module), gzip.compress(TEXT.encode())):
        path.write_bytes(data)
        assert text_of(load(path).module) == text_of(module)
        assert text_of(hloom.load(path)) == text_of(module)
    path.write_text("HloModule m\nENTRY e { junk }")
    with pytest.raises(ParseError):
        hloom.load(path)
    for other in (b"# A page\n\nof text\n", b"", b"\xff\x01"):
        path.write_bytes(other)
        with pytest.raises(UsageError, match="unknown extension"):
            hloom.load(path)


def test_bytes_without_a_name_are_named_for_what_they_are():
    for data, what in ((b"\x7fELF\x02", "machine code"), (b'{"a": 1}', "JSON")):
        with pytest.raises(UsageError, match=f"{what}, not a module of HLO"):
            hloom.load_bytes(data)


def test_a_folder_is_told_from_a_file(tmp_path):
    with pytest.raises(UsageError, match="a folder, not a module"):
        load(tmp_path)
    (tmp_path / "m.before_optimizations.txt").write_text("HloModule m\n")
    with pytest.raises(UsageError) as caught:
        load(tmp_path)
    assert caught.value.hint == "name a module in it, such as m.before_optimizations.txt"
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(UsageError, match="a TensorFlow SavedModel"):
        load(tmp_path)


def test_a_broken_module_stays_one(tmp_path):
    for name, data in (("a.hlo", b"HloModule m\n\nENTRY e { junk }"), ("b.txt", b"\n\n")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ParseError):
            load(tmp_path / name)
