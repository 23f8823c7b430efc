/** Carries out the scenarios of the suite of the clients: `main.js WORLD.json SCENARIOS.json [NAME...]`. */

import { readFile } from "node:fs/promises";
import { Stage } from "./steps.js";
import type { Json, World } from "./world.js";

interface Scenario {
  readonly name: string;
  readonly steps: readonly Json[];
}

async function carryOut(world: World, { name, steps }: Scenario): Promise<Json> {
  let step = 0;
  const stage = new Stage(world);
  let verdict: Json = { scenario: name, ok: true };
  try {
    for (const each of steps) {
      await stage.step(each);
      step += 1;
    }
  } catch (error) {
    verdict = { scenario: name, ok: false, step, error: String(error) };
  }
  try {
    await stage.clean();
  } catch (error) {
    verdict = verdict.ok === true ? { scenario: name, ok: false, step, error: `cleaning up: ${error}` } : verdict;
  }
  return verdict;
}

const [worldFile = "", scenariosFile = "", ...names] = process.argv.slice(2);
const world = JSON.parse(await readFile(worldFile, "utf8")) as World;
const { scenarios } = JSON.parse(await readFile(scenariosFile, "utf8")) as { scenarios: Scenario[] };
let failed = 0;
for (const scenario of scenarios) {
  if (names.length > 0 && !names.includes(scenario.name)) continue;
  const verdict = await carryOut(world, scenario);
  if (verdict.ok !== true) failed += 1;
  process.stdout.write(`${JSON.stringify(verdict)}\n`);
}
process.exitCode = failed > 0 ? 1 : 0;
