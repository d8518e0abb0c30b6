"""Prints modules, computations and instructions as HLO text.

A module of 100,000 instructions has few distinct shapes, attribute records and metadata: the text
of each is made once per print. Operands cost one join.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from hloom.base.diagnostics import UsageError
from hloom.base.quoting import escape
from hloom.ir.async_chain import async_start_of
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.kinds import show_boolean
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.order import canonical_order
from hloom.ir.text.async_form import is_async_wrapper
from hloom.ir.text.cursor import RESERVED
from hloom.ir.text.fields import fields_text
from hloom.ir.text.options import PrintOptions
from hloom.types.literal_text import show_literal
from hloom.types.shape import ProgramShape, Shape

LARGE_CONSTANT = 10
DEEPEST_NESTING = 100
LONGEST_NESTING = 1 << 28
"""Characters of bodies written out inside their callers; each doubling of calls doubles them."""
_NUMBERED = re.compile(r"\.\d+$")


def with_index_comments(parts: list[str]) -> str:
    """The parts with commas, and `/*index=5*/` before every fifth."""
    if len(parts) <= 5:
        return ", ".join(parts)
    return ", ".join(f"/*index={k}*/{p}" if k and k % 5 == 0 else p for k, p in enumerate(parts))


class Printer:
    """Prints with one set of options; keeps the texts it has made."""

    def __init__(self, options: PrintOptions, module: Module | None = None) -> None:
        self.options = options
        self.module = module
        self.attribute_texts: dict[int, str] = {}
        self.annotation_texts: dict[tuple[str, int], str] = {}
        self.alive: list[Any] = []
        self.names: dict[Instruction, str] = {}
        self.hidden: set[Computation] = set()
        self.digests: dict[Computation, str] = {}
        """What stands for the body of a computation, where that is not to be written."""
        self.nested_length = 0
        self.shape_text: Callable[[Shape], str] = (
            (lambda s: s.text) if options.layout_in_shapes else (lambda s: s.text_without_layout)
        )

    # -- module ----------------------------------------------------------------------------

    def module_text(self, module: Module) -> str:
        options, self.module = self.options, module
        parts = [self.header(module)]
        if module.stack_frames is not None and options.metadata and not options.inline_stack_frames:
            parts.append(module.stack_frames.text)
        shown = module.computations_in_order()
        entry = module.entry_or_none
        # An entry that is called as well has to stand before its callers.
        last = None if entry is not None and entry.callers else entry
        if not options.computations:
            shown = [entry] if entry else []
        if options.async_sugar:
            self.hidden = {c for c in shown if is_async_wrapper(c)}
        texts = [(c, self.computation_text(c)) for c in shown if c not in self.hidden]
        if options.canonical_order:
            texts.sort(key=lambda pair: (pair[0] is last, pair[1]))
        else:
            texts.sort(key=lambda pair: pair[0] is last)
        parts.extend(text for _, text in texts)
        return "\n\n".join(parts) + "\n"

    def header(self, module: Module) -> str:
        """`HloModule name, key=value, ...`"""
        options = self.options
        out = [f"HloModule {module.name if options.ids else ''}"]
        if module.schedule is not None:
            out.append("is_scheduled=true")
        if module.input_output_alias:
            out.append(f"input_output_alias={module.input_output_alias.text}")
        if module.buffer_donors:
            out.append(f"buffer_donor={module.buffer_donors.text}")
        if module.alias_passthrough_parameters:
            out.append("alias_passthrough_params=true")
        if module.entry_or_none is not None:
            layout = module.entry_layout or module.entry.program_shape
            out.append(f"entry_computation_layout={self.program_shape_text(layout)}")
        for name in ("parameters", "output"):
            full = f"allow_spmd_sharding_propagation_to_{name}"
            if flags := getattr(module, full):
                out.append(full + "={" + ",".join(map(show_boolean, flags)) + "}")
        if module.replica_count != 1:
            out.append(f"replica_count={module.replica_count}")
        if module.num_partitions != 1:
            out.append(f"num_partitions={module.num_partitions}")
        if module.frontend_attributes and options.frontend_attributes:
            out.append(f"frontend_attributes={module.frontend_attributes.text}")
        if module.backend_config and options.backend_config:
            out.append(f"backend_config={module.backend_config.text(options.sort_backend_config)}")
        if module.origin_recovery_table and options.original_value:
            out.append(f"origin_recovery_table={module.origin_recovery_table}")
        if module.debug_attributes and options.original_value:
            out.append(f"debug_attributes={module.debug_attributes}")
        return ", ".join(out)

    def program_shape_text(self, shape: ProgramShape) -> str:
        parameters = with_index_comments([self.shape_text(s) for s in shape.parameters])
        return "{(" + parameters + ")->" + self.shape_text(shape.result) + "}"

    # -- computation -----------------------------------------------------------------------

    def computation_text(self, c: Computation, indent: int | None = None) -> str:
        """A computation with its head, indented so many steps."""
        options = self.options
        step = options.indent if indent is None else indent
        tab = "  " * step
        order = self.order(c)
        if options.canonical_names:
            self.names.update((i, f"tmp_{n}") for n, i in enumerate(order))
        head = tab
        if indent is None:
            named = options.ids and not options.nested
            head += "ENTRY " if c.is_entry and named else "ENTRY" if c.is_entry else ""
            head += self.marked(c.name) if named else ""
            if options.program_shape:
                head += " " + self.signature(c)
            head += " " if head.strip() else ""
        lines = [head + "{"]
        skip = self.compacted(order) if options.compact_gte else ()
        inner = "  " * (step + 1)
        root = c._root
        for i in order:
            if i not in skip:
                lines.append(f"{inner}{'ROOT ' if i is root else ''}{self.line(i, step + 1)}")
        closing = tab + "}"
        if indent is None:
            if options.name_after_closing_brace and options.ids:
                closing += f" // {c.name}"
            if c.execution_thread != "main" and options.ids:
                closing += f', execution_thread="{escape(c.execution_thread)}"'
            if c.backend_config and options.backend_config:
                closing += f", backend_config={c.backend_config.text(options.sort_backend_config)}"
        lines.append(closing)
        return "\n".join(lines)

    def order(self, c: Computation) -> list[Instruction]:
        if self.options.canonical_names:
            return canonical_order(c)
        module = self.module
        if module is not None and module.schedule is not None and c in module.schedule:
            return module.schedule[c]
        return c.in_order()

    def signature(self, c: Computation) -> str:
        """`(p: f32[2]) -> f32[2]`"""
        parts = [f"{p.name}: {p.shape.text_without_layout}" for p in c.parameters]
        result = c.root.shape.text_without_layout
        return f"({with_index_comments(parts)}) -> {result}"

    def compacted(self, order: Iterable[Instruction]) -> set[Instruction]:
        """The get-tuple-elements that compact notation leaves out."""
        return {
            i
            for i in order
            if i.opcode == "get-tuple-element"
            and not i.is_root
            and i.users
            and not (i.sharding or i.frontend_attributes or i.backend_config or i.extra)
            and not i.has_control_edges
        }

    def marked(self, name: str) -> str:
        """A name as it is referred to; words of the language keep their `%` always."""
        return "%" + name if self.options.percent or name in RESERVED else name

    # -- instruction -----------------------------------------------------------------------

    def name(self, i: Instruction) -> str:
        if self.options.canonical_names:
            return self.names.get(i, i.name)
        if not self.options.ids:
            return _NUMBERED.sub("", i.name)
        return i.name

    def line(self, i: Instruction, indent: int = 1) -> str:
        """`%name = shape opcode(operands), attributes`, without root mark."""
        options = self.options
        opcode, called = i.opcode, i.called
        attrs, calls_of = i.attrs, i
        if options.async_sugar and opcode.startswith("async-"):
            start = async_start_of(i)
            if start is not None and start.called and is_async_wrapper(start.called[0]):
                calls_of = start.called[0].root
                opcode = calls_of.opcode + opcode[len("async") :]
                attrs, called = calls_of.attrs, calls_of.called
        name = i.name if options.ids and not options.canonical_names else self.name(i)
        shape = self.shape_text(i.shape) + " " if options.result_shape else ""
        out = f"{self.marked(name)} = {shape}{opcode}({self.operand_text(i)})"
        if calls_of is i:
            text = self.attribute_texts.get(id(attrs))
            if text is None:
                text = self.attribute_text(i)
            out += text
            if called:
                out += self.called_text(i, called, indent)
        else:
            out += self.async_attributes(i, calls_of, indent)
        return out + self.annotations(i)

    def operand_text(self, i: Instruction) -> str:
        options = self.options
        operands = i.operands
        if not operands:
            if i.opcode == "constant":
                return self.constant_text(i)
            if i.opcode == "parameter":
                return str(i.attrs.number) if options.parameter_number else ""
            return ""
        if options.compact_gte:
            parts = [self.compact_name(x) for x in operands]
        elif options.operand_shape or options.canonical_names or not options.ids:
            parts = [self.shaped_operand(x) for x in operands]
        elif options.percent:
            parts = ["%" + x.name for x in operands]
        else:
            parts = [self.marked(x.name) for x in operands]
        if options.compact_operands and len(parts) > 4:
            parts = [*parts[:4], f"...(+{len(parts) - 4})"]
            return ", ".join(parts)
        if options.operand_index_comments:
            return with_index_comments(parts)
        return ", ".join(parts)

    def shaped_operand(self, x: Instruction, shape: Shape | None = None) -> str:
        """A name behind its shape, or behind that of the element of it that is meant."""
        parts = []
        if self.options.operand_shape:
            parts.append(self.shape_text(shape or x.shape))
        if self.options.operand_names or self.options.canonical_names:
            parts.append(self.marked(self.name(x)))
        return " ".join(parts)

    def compact_name(self, x: Instruction) -> str:
        path, element = "", x
        while self.compacted((x,)):
            path = f"#{x.attrs.index}{path}"
            x = x.operands[0]
        return self.shaped_operand(x, element.shape) + path

    def constant_text(self, i: Instruction) -> str:
        options, literal = self.options, i.attrs.literal
        shape = i.shape
        if options.only_essential_constants and shape.is_array:
            if literal.is_elided:
                return "{...}"
            for value in (0, 1):
                if literal.is_all(value) or not shape.size:
                    return str(value)
            return show_literal(literal) if shape.dtype.is_integral else "{...}"
        large = shape.is_array and shape.size > LARGE_CONSTANT
        if literal.is_elided or (large and not options.large_constants):
            return "{...}"
        return show_literal(literal)

    def attribute_text(self, i: Instruction) -> str:
        """`, name=value` of every attribute of the opcode that is to be written."""
        text = self.fields_text(OPS[i.opcode].fields, i.attrs)
        self.attribute_texts[id(i.attrs)] = text
        self.alive.append(i.attrs)
        return text

    def fields_text(self, fields: Iterable[Any], attrs: Any) -> str:
        return fields_text(fields, attrs, self.options, self.shape_text)

    def called_text(
        self, i: Instruction, called: tuple[Computation, ...], indent: int, opcode: str = ""
    ) -> str:
        mode = self.options.subcomputation_mode
        opcode = opcode or i.opcode
        op = OPS[opcode]
        if mode == "off" or not called:
            return ""
        if mode == "full":
            texts = ["\n" + self.nested_text(c, indent) for c in called]
        else:
            texts = [
                self.marked(c.name if self.options.ids else _NUMBERED.sub("", c.name))
                for c in called
            ]
        if i.opcode == "conditional" and i.operands[0].shape.dtype.is_pred and len(texts) == 2:
            return f", true_computation={texts[0]}, false_computation={texts[1]}"
        if op.called_variadic and mode == "full":
            return f", {op.called[0]}={{{','.join(texts)}\n}}"
        if op.called_variadic:
            return f", {op.called[0]}={{{', '.join(texts)}}}"
        return "".join(f", {n}={t}" for n, t in zip(op.called, texts, strict=False))

    def nested_text(self, c: Computation, indent: int) -> str:
        """The body of a called computation inside the text of its caller; names start anew."""
        if c in self.digests:
            return self.digests[c]
        if indent > DEEPEST_NESTING or self.nested_length > LONGEST_NESTING:
            raise UsageError(
                "the bodies of called computations nest too deeply to be written out",
                instruction=f"%{c.name}",
                hint="print with subcomputation_mode='names'",
            )
        outer, self.names = self.names, {}
        text = self.computation_text(c, indent)
        self.names = outer
        self.nested_length += len(text)
        return text

    def async_attributes(self, i: Instruction, wrapped: Instruction, indent: int) -> str:
        if i.opcode != "async-start":
            return ""
        out = ""
        if i.attrs.async_execution_thread != "main":
            out += f', async_execution_thread="{escape(i.attrs.async_execution_thread)}"'
        if i.attrs.output_to_operand_aliasing:
            out += f", output_to_operand_aliasing={i.attrs.output_to_operand_aliasing.text}"
        out += self.fields_text(OPS[wrapped.opcode].fields, wrapped.attrs)
        out += self.called_text(wrapped, wrapped.called, indent)
        if self.options.subcomputation_mode == "full":
            out += f", calls=\n{self.nested_text(i.called[0], indent)}"
        return out

    def annotations(self, i: Instruction) -> str:
        options = self.options
        out = ""
        if i.sharding is not None:
            shown = i.sharding if options.metadata else i.sharding.without_metadata()
            out += f", sharding={self.cached('sharding', shown)}"
        if i.frontend_attributes and options.frontend_attributes:
            out += f", frontend_attributes={self.cached('frontend', i.frontend_attributes)}"
        if i.control_predecessors and options.control_dependencies:
            names = ", ".join(self.marked(self.name(x)) for x in i.control_predecessors)
            out += f", control-predecessors={{{names}}}"
        if i.extra:
            if "parameter_replication" in i.extra and options.extra_attributes:
                flags = ",".join(map(show_boolean, i.extra["parameter_replication"]))
                out += f", parameter_replication={{{flags}}}"
            if "statistics" in i.extra and options.extra_attributes:
                out += f", statistics={i.extra['statistics'].text}"
            if "original_value" in i.extra and options.original_value:
                out += f", origin={i.extra['original_value'].text}"
        if i.metadata is not None and (options.metadata or options.metadata_only_op_name):
            if text := self.metadata_text(i.metadata):
                out += f", metadata={text}"
        if i.backend_config is not None and options.backend_config:
            out += f", backend_config={i.backend_config.text(sort=options.sort_backend_config)}"
        return out

    def cached(self, kind: str, value: Any) -> str:
        text = self.annotation_texts.get((kind, id(value)))
        if text is None:
            text = self.annotation_texts[kind, id(value)] = value.text
            self.alive.append(value)
        return text

    def metadata_text(self, metadata: Any) -> str:
        key = ("metadata", id(metadata))
        text = self.annotation_texts.get(key)
        if text is None:
            frames = self.module.stack_frames if self.module is not None else None
            shown = metadata
            if self.options.metadata_only_op_name:
                text = f'{{op_name="{escape(metadata.op_name)}"}}' if metadata.op_name else ""
            else:
                if self.options.inline_stack_frames and frames is not None:
                    shown = metadata.with_inlined_frames(frames)
                text = shown.text
            self.annotation_texts[key] = text
            self.alive.append(metadata)
        return text if text != "{}" else ""


def show_module(module: Module, options: PrintOptions | None = None) -> str:
    """The module as HLO text."""
    return Printer(options or PrintOptions(), module).module_text(module)


def show_computation(computation: Computation, options: PrintOptions | None = None) -> str:
    """One computation as HLO text."""
    printer = Printer(options or PrintOptions(), computation.module)
    return printer.computation_text(computation)


def show_instruction(i: Instruction, options: PrintOptions | None = None) -> str:
    """One line of HLO text, without root mark."""
    return Printer(options or PrintOptions(), i.parent.module).line(i)
