"""A module for browsers, Node and others that run WebAssembly: arrays in and out by name."""

from __future__ import annotations

import json

from hloom.aot.languages.elements import elements
from hloom.aot.reading import Array, Function

_VIEWS = {"s8": "Int8Array", "u8": "Uint8Array", "s16": "Int16Array", "u16": "Uint16Array"}
_VIEWS |= {"s32": "Int32Array", "u32": "Uint32Array", "f32": "Float32Array"}
_VIEWS |= {"s64": "BigInt64Array", "u64": "BigUint64Array", "f64": "Float64Array"}

_MODULE = """// {name}, a library made by hloom.
//
//   const {name} = await load(await fetch("{file}"));    // or bytes, or a WebAssembly.Module
//   const {{ {first} }} = {name}({{ ... }});
//
// Inputs are typed arrays (or arrays of numbers), row-major; results are new typed arrays.

export const inputs = {inputs};
export const outputs = {outputs};

const VIEWS = {{ {views} }};

async function instance(source) {{
  if (source instanceof WebAssembly.Module) return WebAssembly.instantiate(source, {{}});
  if (typeof Response !== "undefined" && source instanceof Response) {{
    if (!source.ok) throw new Error(`${{source.url}}: ${{source.status}} ${{source.statusText}}`);
    source = await source.arrayBuffer();
  }}
  return (await WebAssembly.instantiate(source, {{}})).instance;
}}

// The function of a library: a call takes and gives objects of arrays, by name.
export async function load(source) {{
  const {{ memory, __heap_base: base, {name}: run }} = (await instance(source)).exports;
  let next = base.value;
  const room = (size, alignment) => {{
    const place = Math.ceil(next / alignment) * alignment;
    next = place + size;
    const pages = Math.ceil((next - memory.buffer.byteLength) / 65536);
    if (pages > 0) memory.grow(pages);
    return place;
  }};
  const placed = (arrays) =>
    arrays.map((a) => ({{ ...a, at: room(a.bytes, Math.max(a.alignment, 8)) }}));
  const [sources, targets] = [placed(inputs), placed(outputs)];
  const table = (arrays) => {{
    const at = room(4 * arrays.length, 4);
    new Uint32Array(memory.buffer, at, arrays.length).set(arrays.map((a) => a.at));
    return at;
  }};
  const [from, to] = [table(sources), table(targets)];
  const workspace = room({bytes}, {alignment});
  const view = (a) => new VIEWS[a.type](memory.buffer, a.at, a.count);
  return (given) => {{
    for (const name of Object.keys(given))
      if (!sources.some((a) => a.name === name)) throw new Error(`{name} takes no ${{name}}`);
    for (const a of sources) {{
      const array = given[a.name];
      if (array === undefined) throw new Error(`{name} is given no ${{a.name}}`);
      if (array.length !== a.count)
        throw new Error(`${{a.name}} has ${{array.length}} elements, ${{a.count}} are needed`);
      view(a).set(array);
    }}
    const status = run(from, to, workspace);
    if (status !== 0) throw new Error(`{name} fails with status ${{status}}`);
    return Object.fromEntries(targets.map((a) => [a.name, view(a).slice()]));
  }};
}}
"""


def files(f: Function, library: str) -> dict[str, str]:
    """The module."""
    first = f.outputs[0].name if f.outputs else "result"
    text = _MODULE.format(
        name=f.name,
        file=library,
        first=first,
        inputs=_described(f.inputs),
        outputs=_described(f.outputs),
        views=", ".join(_VIEWS.values()),
        bytes=f.workspace_bytes,
        alignment=f.workspace_alignment,
    )
    return {f"{f.name}.mjs": text}


def _described(arrays: tuple[Array, ...]) -> str:
    rows = []
    for a in arrays:
        kind, count = elements(a)
        row = {
            "name": a.name,
            "type": _VIEWS[kind],
            "dims": list(a.shape.dims),
            "count": count,
            "bytes": a.size_bytes,
            "alignment": a.alignment,
        }
        rows.append(f"  {json.dumps(row)},\n")
    return f"[\n{''.join(rows)}]"
