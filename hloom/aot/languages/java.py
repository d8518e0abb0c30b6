"""A class for Java 22 and later: the library through `java.lang.foreign`."""

from __future__ import annotations

from hloom.aot.languages.elements import elements, identifiers
from hloom.aot.reading import Function

WORDS = frozenset(
    "abstract assert boolean break byte case catch char class const continue default do double "
    "else enum extends final finally float for goto if implements import instanceof int interface "
    "long native new package private protected public return short static strictfp super switch "
    "synchronized this throw throws transient try void volatile while true false null var _ "
    "inputs outputs workspace function status".split()
)

_CLASS = """import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.*;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;

/**
 * {name}, a C library made by hloom. An instance is for one thread at a time: it has memory of its
 * own to work in. Arrays are native memory, row-major; new ones come from {{@code arena.allocate}}.
 */
public final class {class_name} implements AutoCloseable {{
  public static final long WORKSPACE_BYTES = {bytes}L;
{constants}
  private final Arena arena = Arena.ofShared();
  private final MethodHandle function;
  private final MemorySegment inputs, outputs, workspace;

  /** Opens the library. */
  public {class_name}(Path library) {{
    SymbolLookup symbols = SymbolLookup.libraryLookup(library.toAbsolutePath(), arena);
    function =
        Linker.nativeLinker()
            .downcallHandle(
                symbols.find("{name}").orElseThrow(),
                FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
    inputs = arena.allocate(ADDRESS, {input_room});
    outputs = arena.allocate(ADDRESS, {output_room});
    workspace = arena.allocate({room}L, {alignment});
  }}

  /**
   * Runs the program.
   *
{comments}
   */
  public void call({parameters}) {{
{checks}{stores}    int status;
    try {{
      status = (int) function.invokeExact(inputs, outputs, workspace);
    }} catch (Throwable error) {{
      throw new AssertionError(error);
    }}
    if (status != 0) throw new IllegalStateException(error(status));
  }}

  private static String error(int status) {{
    return switch (status) {{
{errors}      default -> "the program failed with status " + status;
    }};
  }}

  private static void check(String name, long expected, MemorySegment array) {{
    if (array.byteSize() != expected)
      throw new IllegalArgumentException(
          name + " has " + array.byteSize() + " bytes, " + expected + " are needed");
  }}

  @Override
  public void close() {{
    arena.close();
  }}
}}
"""


def class_name(f: Function) -> str:
    """The name of the class: `my_model` is `MyModel`."""
    return "".join([w[:1].upper() + w[1:] for w in f.name.split("_")]) or "Model"


def files(f: Function) -> dict[str, str]:
    """The file of the class."""
    name = class_name(f)
    arrays = [*f.inputs, *f.outputs]
    wanted = [a.name for a in f.inputs]
    wanted += [f"{a.name}_out" if a.name in wanted else a.name for a in f.outputs]
    names = identifiers(wanted, WORDS)
    constants, comments, checks, stores = "", [], "", ""
    for k, (a, own) in enumerate(zip(arrays, names)):
        is_input = k < len(f.inputs)
        kind, _ = elements(a)
        what = "input" if is_input else "output"
        if a.in_place and not is_input:
            what += f", may be {a.in_place}"
        constants += f"  public static final long {own}_BYTES = {a.size_bytes}L;\n"
        comments.append(f"   * @param {own} {a.shape.text} ({kind}), {what}")
        checks += f'    check("{own}", {own}_BYTES, {own});\n'
        table, number = ("inputs", k) if is_input else ("outputs", k - len(f.inputs))
        stores += f"    {table}.setAtIndex(ADDRESS, {number}, {own});\n"
    text = _CLASS.format(
        name=f.name,
        class_name=name,
        bytes=f.workspace_bytes,
        room=max(f.workspace_bytes, 1),
        alignment=f.workspace_alignment,
        constants=constants,
        input_room=max(len(f.inputs), 1),
        output_room=max(len(f.outputs), 1),
        comments="\n".join(comments) or "   *",
        parameters=", ".join([f"MemorySegment {n}" for n in names]),
        checks=checks,
        stores=stores,
        errors="".join([f'      case {s} -> "{words}";\n' for s, words in f.errors.items()]),
    )
    return {f"{name}.java": text}
