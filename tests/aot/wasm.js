// Calls a library of hloom: wasm.js LIBRARY FUNCTION; standard input and output as bare.c has them.
const fs = require("fs");
const [, , file, name] = process.argv;
const input = fs.readFileSync(0);
let at = 0;
const number = () => Number(input.readBigInt64LE((at += 8) - 8));
const [workspace, inputs, outputs] = [number(), number(), number()];
const sizes = Array.from({ length: inputs + outputs }, number);
const alignments = Array.from({ length: inputs + outputs }, number);
const aliases = Array.from({ length: outputs }, number);
const library = new WebAssembly.Instance(new WebAssembly.Module(fs.readFileSync(file)), {});
const { memory, __heap_base: base } = library.exports;
let next = base.value;
const room = (size, alignment) => {
  const place = Math.ceil(next / alignment) * alignment;
  next = place + size;
  const pages = Math.ceil((next - memory.buffer.byteLength) / 65536);
  if (pages > 0) memory.grow(pages);
  return place;
};
const places = sizes.map((size, k) => room(size, Math.max(alignments[k], 1)));
aliases.forEach((input, k) => { if (input >= 0) places[inputs + k] = places[input]; });
const tables = [room(4 * inputs, 4), room(4 * outputs, 4)];
const scratch = room(workspace, 64);
const view = () => new DataView(memory.buffer);
for (let k = 0; k < inputs; k++) {
  new Uint8Array(memory.buffer).set(input.subarray(at, at + sizes[k]), places[k]);
  at += sizes[k];
  view().setUint32(tables[0] + 4 * k, places[k], true);
}
for (let k = 0; k < outputs; k++) view().setUint32(tables[1] + 4 * k, places[inputs + k], true);
const status = library.exports[name](tables[0], tables[1], scratch);
if (status) process.exit(100 + status);
for (let k = 0; k < outputs; k++)
  fs.writeSync(1, new Uint8Array(memory.buffer, places[inputs + k], sizes[inputs + k]));
