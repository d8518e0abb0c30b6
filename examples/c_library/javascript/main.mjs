import { readFileSync } from "node:fs";
import { load } from "../wasm/javascript/step.mjs";

const step = await load(readFileSync(new URL("../wasm/lib/step.wasm", import.meta.url)));
let state = new Float32Array(4);
for (let k = 0; k < 3; k++) {
  const { next, twice } = step({ state, x: [1, 2, 3] });
  state = next;
  console.log(state[0].toFixed(2), twice[3].toFixed(2));
}
for (const wrong of [{ state }, { state, x: [1, 2] }, { state, x: [1, 2, 3], y: [] }])
  try {
    step(wrong);
    process.exit(1);
  } catch (error) {
    if (!/is given no x|x has 2 elements|takes no y/.test(error.message)) throw error;
  }
