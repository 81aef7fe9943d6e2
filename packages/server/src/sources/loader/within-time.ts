import vm from "node:vm";

const evaluate = Symbol.for("toolrack.evaluate");
const trampoline = new vm.Script('globalThis[Symbol.for("toolrack.evaluate")]()', {
  filename: "toolrack:evaluate",
});

/** Node can interrupt code only when a script starts it, so a script that does nothing else starts it. */
export function withinTime(call: () => void, limit: number): void {
  const slot = globalThis as unknown as Record<symbol, unknown>; // The script can see globals only.
  const { exit } = process;
  slot[evaluate] = call;
  process.exit = refuseExit;
  try {
    trampoline.runInThisContext({ timeout: limit, displayErrors: false });
  } finally {
    process.exit = exit;
    delete slot[evaluate];
  }
}

function refuseExit(): never {
  throw new Error("process.exit() is not available to tool files.");
}
