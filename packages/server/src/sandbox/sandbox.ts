import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findConfinement } from "./confinement/probe.ts";
import { Reaper } from "./confinement/restricted-process.ts";
import { EgressProxies } from "./egress.ts";
import { ProgramSlots, runProgram } from "./program.ts";
import { type IsolationReason, type Sandbox, SandboxError, type SandboxOptions } from "./sandbox-types.ts";
import { WorkerPool } from "./worker-pool.ts";

/**
 * Opens a sandbox with the highest level of isolation that works on this machine. When none works, or the
 * level is below `options.require`, it resolves to a sandbox that refuses to run anything.
 */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  mkdirSync(options.directory, { recursive: true });
  // This directory is not in the workspace, because paths of unix sockets must be short, and the users that
  // tools run as must be able to pass through it.
  const temporary = mkdtempSync(join(realpathSync(tmpdir()), "toolrack-run-"));
  chmodSync(temporary, 0o711);
  const reaper = new Reaper(temporary);
  const release = () => {
    reaper.close();
    rmSync(temporary, { recursive: true, force: true });
  };
  const { level: highest = 3, require = 2 } = options;
  const found = findConfinement(options.directory, highest, reaper, temporary);
  const { confinement, ...why } = await found;
  const { reason } = why;
  if (confinement === undefined) {
    release();
    return closedSandbox({ ...why, reason: `No isolation can be had here. ${reason}` });
  }
  if (confinement.level < require) {
    release();
    const begin = `The configuration asks for isolation level ${require} (sandbox.require), and this server has level ${confinement.level}.`;
    return closedSandbox({
      ...why,
      reason: `${begin} ${reason}`,
      details: { ...why.details, required: require },
    });
  }

  const sockets = join(temporary, "net");
  mkdirSync(sockets, { mode: 0o700 });
  const proxies = new EgressProxies(sockets);
  const { logger, blankWorkers = 1 } = options;
  const pool = new WorkerPool({ confinement, proxies, logger, blankWorkers });
  const check = (code: { readonly label: string; readonly foreign: boolean }) => {
    if (!code.foreign || confinement.level === 3 || options.allowForeignBelow3) return;
    throw new SandboxError(
      "sandbox_refused",
      `${code.label} came from elsewhere, and such code runs at isolation level 3 only. This server has level 2: ${reason} The operator can also accept the lower level with sandbox.allowForeign.`,
    );
  };
  const slots = new ProgramSlots();
  let closing: Promise<void> | undefined;
  return {
    level: confinement.level,
    ...(confinement.level === 3 ? {} : why),
    async invoke(spec, invocation) {
      check(spec);
      return pool.invoke(spec, invocation);
    },
    retire: (keys) => pool.retire(keys),
    async run(program, input, signal) {
      check(program);
      const atOnce = program.limits?.atOnce ?? Number.POSITIVE_INFINITY;
      const leave = await slots.take(program.label, atOnce, signal);
      try {
        return await runProgram(confinement, proxies, program, input, signal);
      } finally {
        leave();
      }
    },
    placeOf: (data) => confinement.placeOf(data),
    stats: () => pool.stats(),
    close() {
      closing ??= (async () => {
        await pool.close();
        await proxies.close();
        release();
      })();
      return closing;
    },
  };
}

function closedSandbox(why: IsolationReason): Sandbox {
  const refuse = async ({ label }: { readonly label: string }) => {
    throw new SandboxError("sandbox_refused", `${label} cannot run. ${why.reason}`);
  };
  return {
    level: 0,
    ...why,
    invoke: refuse,
    run: refuse,
    retire() {},
    placeOf: ({ path }) => path,
    stats: () => ({ blank: 0, warm: 0, busy: 0 }),
    async close() {},
  };
}
