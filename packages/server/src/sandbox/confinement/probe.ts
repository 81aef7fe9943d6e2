import { existsSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { defaultLimits } from "../../config/index.ts";
import { defined, reasonOf } from "../../helpers/index.ts";
import type { IsolationReason } from "../sandbox-types.ts";
import { Worker } from "../worker.ts";
import { bubblewrapConfinement, librariesOf, seccompFilter } from "./bubblewrap.ts";
import { type Confinement, nodeGuardsNetwork } from "./confinement.ts";
import { dataKbOfTree } from "./process-tree.ts";
import { type Reaper, restrictedProcessConfinement } from "./restricted-process.ts";

/** A confinement, or why a higher level, or any level, does not work here, and what the operator can do about it. */
interface FoundConfinement extends IsolationReason {
  readonly confinement?: Confinement;
}

/**
 * Finds the highest level of confinement, up to `highest`, that works on this machine. Each candidate starts
 * two workers: the first measures the data memory of a fresh Node process, the second tries to break out and
 * must fail.
 */
export async function findConfinement(
  directory: string,
  highest: 3 | 2,
  reaper: Reaper,
  temporary: string,
): Promise<FoundConfinement> {
  const best = highest === 3 ? await findBubblewrap(directory) : wanted2;
  if (best.confinement !== undefined) return best;
  const { code } = best;
  const next = await findRestrictedProcess(reaper, temporary);
  if (next.confinement === undefined) {
    const reason = `${best.reason} Level 2 cannot be had either: ${next.reason}`;
    return { reason, code, details: { ...best.details, level2: next.reason } };
  }
  const reason = `${best.reason} ${describeLevel2()}`;
  const details = { ...best.details, isRoot: process.getuid?.() === 0 };
  return { confinement: next.confinement, reason, code, details };
}

const wanted2: FoundConfinement = { reason: "Level 2 was asked for.", code: "level_2_wanted" };

/** The weaknesses of level 2, for `toolrack doctor` and `show`; see docs/guides/single-file-tools.md. */
function describeLevel2(): string {
  const always =
    "Level 2 holds a tool by Node's own permissions alone: it does not stop one that uses an error in Node.";
  if (process.getuid?.() === 0) return always;
  // Node's permissions and limits do not stop a process from sending signals.
  return `${always} As the server is not root, the tool has the server's own user: by signals it can stop the server and other programs of that user, and open the debugger of that user's other Node programs, though not of the server.`;
}

async function findBubblewrap(directory: string): Promise<FoundConfinement> {
  if (process.platform !== "linux")
    return {
      reason: `Level 3 needs Linux; this is ${process.platform}. Run the server on Linux or in a Linux container.`,
      code: "not_linux",
      details: { platform: process.platform },
    };
  const bubblewrap = findInPath("bwrap");
  if (bubblewrap === undefined)
    return {
      reason:
        "bubblewrap is not installed. Install it (Debian and Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap; Alpine: apk add bubblewrap) and start the server again.",
      code: "bubblewrap_missing",
    };
  const filter = seccompFilter();
  const seccompFile = filter && join(directory, "seccomp.bpf");
  if (filter !== undefined) writeFileSync(join(directory, "seccomp.bpf"), filter);
  const hostsFile = join(directory, "hosts");
  writeFileSync(hostsFile, "127.0.0.1 localhost sandbox\n");
  let failure = "";
  // Root is tried without a user namespace first, and with one if that fails.
  for (const userNamespace of process.getuid?.() === 0 ? [false, true] : [true])
    for (const proc of [true, false]) {
      try {
        const libraries = await librariesOf(process.execPath);
        const options = {
          userNamespace,
          proc,
          bubblewrap,
          libraries,
          hostsFile,
          ...defined({ seccompFile }),
        };
        const create = (nodeDataKb?: number) =>
          bubblewrapConfinement({ ...options, ...defined({ nodeDataKb }) });
        return { confinement: await tried(create), reason: "" };
      } catch (error) {
        failure ||= reasonOf(error);
      }
    }
  return {
    reason: `bubblewrap is installed but does not work here: ${failure}. In a container, let it make namespaces (Docker: --security-opt seccomp=unconfined --cap-add SYS_ADMIN); on a machine of its own, allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0).`,
    code: "bubblewrap_fails",
    details: { said: failure },
  };
}

async function findRestrictedProcess(
  reaper: Reaper,
  directory: string,
): Promise<Omit<FoundConfinement, "code">> {
  if (process.platform === "win32") return { reason: "it needs Linux or macOS." };
  if (!nodeGuardsNetwork)
    return {
      reason: `Node ${process.versions.node} cannot keep a process from the network; Node 25 or newer can.`,
    };
  try {
    const create = (nodeDataKb?: number) =>
      restrictedProcessConfinement({ reaper, directory, ...defined({ nodeDataKb }) });
    return { confinement: await tried(create), reason: "" };
  } catch (error) {
    return { reason: `its test failed: ${reasonOf(error)}.` };
  }
}

/** Measures the memory of one worker, then checks that a second one with limits is confined, or throws. */
async function tried(create: (nodeDataKb?: number) => Confinement): Promise<Confinement> {
  const nodeDataKb = await tryWorker(create(), async (_worker, pid) => dataKbOfTree(pid));
  const confinement = create(nodeDataKb);
  await tryWorker(confinement, checkConfined);
  return confinement;
}

async function tryWorker<Result>(
  confinement: Confinement,
  use: (worker: Worker, pid: number) => Promise<Result>,
): Promise<Result> {
  const { memoryMb, scratchMb, dataMb } = defaultLimits;
  const launched = confinement.startWorker({ memoryMb, scratchMb, dataMb });
  const worker = new Worker(launched);
  const label = "The test worker";
  const code = { key: "probe", label, code: probeCode, filename: "probe.cjs" };
  const spec = { ...code, hosts: [], settings: null, foreign: false };
  try {
    await worker.load(spec, defaultLimits, "");
    return await use(worker, launched.child.pid ?? 0);
  } finally {
    worker.kill();
    await worker.ended;
  }
}

const probeCode = `module.exports = { methods: { look() {
  const tries = {
    files: () => require("node:fs").readdirSync("/"),
    programs: () => require("node:child_process").spawnSync(process.execPath, ["-v"]).error ?? 1,
    databases: () => require("node:sqlite"),
  };
  const open = Object.keys(tries).filter((name) => { try { const value = tries[name](); return !(value instanceof Error); } catch { return false; } });
  return { open, uid: process.getuid() };
} } };`;

async function checkConfined(worker: Worker): Promise<void> {
  const signal = AbortSignal.timeout(defaultLimits.initMs);
  const answer = await worker.invoke({ method: "look", params: null, signal });
  const { open, uid } = answer as { open: string[]; uid: number }; // `probeCode` returns this.
  if (open.length > 0) throw new Error(`a worker could reach ${open.join(" and ")}`);
  if (uid === 0) throw new Error("a worker ran as root");
}

function findInPath(name: string): string | undefined {
  const directories = (process.env.PATH ?? "/usr/bin:/bin").split(delimiter);
  return directories.map((directory) => join(directory, name)).find((path) => existsSync(path));
}
