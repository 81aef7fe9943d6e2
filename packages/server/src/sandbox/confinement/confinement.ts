import type { ChildProcess } from "node:child_process";
import { existsSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { WorkerLimits } from "../../config/index.ts";
import { defaultLimits } from "../../config/index.ts";
import { type ProgramSpec, SandboxError } from "../sandbox.ts";
import { Worker } from "../worker.ts";
import { bubblewrapConfinement, seccompFilter } from "./bubblewrap.ts";
import { dataKbOfTree, type Reaper, restrictedProcessConfinement } from "./restricted-process.ts";

/** What has to be decided about a worker before it starts; all else is sent to it later. */
export interface WorkerShape {
  readonly dependencies?: string;
  /** The unix socket of the egress proxy for the worker's grants. */
  readonly egressSocket?: string;
  readonly memoryMb: number;
  readonly scratchMb: number;
}

export interface ProgramShape {
  readonly program: ProgramSpec;
  readonly egressSocket?: string;
  readonly limits: WorkerLimits;
}

export interface Launched {
  /** Leader of its own process group. For workers, stdio 3 is the channel. */
  readonly child: ChildProcess;
  /** The directory, as the worker sees it, in which its code is said to be. */
  readonly codeDirectory: string;
  /** The directory on the host that the process may write to, where nothing else bounds its size. */
  readonly scratch?: string;
  /** Frees what the process had on the host. Called once, after it has ended. */
  release(): void;
}

/** A way to start processes that can do no harm. Both methods throw when the process cannot be confined. */
export interface Confinement {
  readonly level: 3 | 2;
  startWorker(shape: WorkerShape): Launched;
  startProgram(shape: ProgramShape): Launched;
}

interface FoundConfinement {
  readonly confinement?: Confinement;
  /** Why it is not level 3, and what would help. */
  readonly reason?: string;
}

/** The best confinement that really works here: each is tried with a worker that must find itself confined. */
export async function findConfinement(
  directory: string,
  highest: 3 | 2,
  scratch: { readonly reaper: Reaper; readonly directory: string },
): Promise<FoundConfinement> {
  const best = highest === 3 ? await findBubblewrap(directory) : { reason: "Level 2 was asked for." };
  if (best.confinement !== undefined) return best;
  const next = await findRestrictedProcess(scratch);
  if (next.confinement !== undefined)
    return { confinement: next.confinement, reason: `${best.reason} ${whatLevel2DoesNotStop()}` };
  return { reason: `${best.reason} Level 2 cannot be had either: ${next.reason}` };
}

/** `toolrack doctor` and `toolrack show` tell the operator, and docs/guides/single-file-tools.md explains it. */
function whatLevel2DoesNotStop(): string {
  const always =
    "Level 2 holds a tool by Node's own permissions alone: it does not stop one that uses an error in Node.";
  if (process.getuid?.() === 0) return always;
  // Signals are the one door that neither Node's permissions nor limits close.
  return `${always} As the server is not root, the tool has the server's own user: by signals it can stop the server and other programs of that user, and open the debugger of that user's other Node programs, though not of the server.`;
}

async function findBubblewrap(directory: string): Promise<FoundConfinement & { reason: string }> {
  if (process.platform !== "linux")
    return {
      reason: `Level 3 needs Linux; this is ${process.platform}. Run the server on Linux or in a Linux container.`,
    };
  const bubblewrap = findInPath("bwrap");
  if (bubblewrap === undefined)
    return {
      reason:
        "bubblewrap is not installed. Install it (Debian and Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap; Alpine: apk add bubblewrap) and start the server again.",
    };
  const seccompFile = writeSeccompFilter(directory);
  const ways = [
    ...(process.getuid?.() === 0
      ? [
          { userNamespace: false, proc: true },
          { userNamespace: false, proc: false },
        ]
      : []),
    { userNamespace: true, proc: true },
    { userNamespace: true, proc: false },
  ];
  let failure = "";
  for (const way of ways) {
    const options = { ...way, bubblewrap, ...(seccompFile === undefined ? {} : { seccompFile }) };
    const tried = await attempt((nodeDataKb) =>
      bubblewrapConfinement({ ...options, ...(nodeDataKb === undefined ? {} : { nodeDataKb }) }),
    );
    if (tried.confinement !== undefined) return { confinement: tried.confinement, reason: "" };
    failure ||= tried.failure;
  }
  return {
    reason: `bubblewrap is installed but does not work here: ${failure}. In a container, let it make namespaces (Docker: --security-opt seccomp=unconfined --cap-add SYS_ADMIN); on a machine of its own, allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0).`,
  };
}

async function findRestrictedProcess(scratch: {
  reaper: Reaper;
  directory: string;
}): Promise<FoundConfinement> {
  if (process.platform === "win32") return { reason: "it needs Linux or macOS." };
  if (!nodeGuardsNetwork)
    return {
      reason: `Node ${process.versions.node} cannot keep a process from the network; Node 25 or newer can.`,
    };
  const tried = await attempt((nodeDataKb) =>
    restrictedProcessConfinement({ ...scratch, ...(nodeDataKb === undefined ? {} : { nodeDataKb }) }),
  );
  if (tried.confinement === undefined) return { reason: `its test failed: ${tried.failure}.` };
  return { confinement: tried.confinement };
}

type Attempt = { confinement: Confinement } | { confinement?: undefined; failure: string };

/** Starts one worker to measure it, then one with limits that must find itself confined. */
async function attempt(create: (nodeDataKb?: number) => Confinement): Promise<Attempt> {
  try {
    const nodeDataKb = await tryWorker(create(), async (_worker, pid) => dataKbOfTree(pid));
    const confinement = create(nodeDataKb);
    await tryWorker(confinement, checkConfined);
    return { confinement };
  } catch (error) {
    return { failure: error instanceof Error ? error.message : String(error) };
  }
}

async function tryWorker<Result>(
  confinement: Confinement,
  use: (worker: Worker, pid: number) => Promise<Result>,
): Promise<Result> {
  const { memoryMb, scratchMb } = defaultLimits;
  const launched = confinement.startWorker({ memoryMb, scratchMb });
  const worker = new Worker(launched, { onFree() {}, onEnd() {}, onLog() {} });
  const spec = {
    key: "probe",
    label: "The test worker",
    code: probeCode,
    filename: "probe.cjs",
    hosts: [],
    settings: null,
    foreign: false,
  };
  try {
    await worker.load(spec, defaultLimits, "");
    return await use(worker, launched.child.pid ?? 0);
  } finally {
    worker.kill();
    await worker.ended;
  }
}

/** What it says is checked here; a worker that can say wrong things is not confined by what it says. */
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
  const { open, uid } = answer as { open: string[]; uid: number };
  if (open.length > 0) throw new Error(`a worker could reach ${open.join(" and ")}`);
  if (uid === 0) throw new Error("a worker ran as root");
}

function writeSeccompFilter(directory: string): string | undefined {
  const filter = seccompFilter();
  if (filter === undefined) return undefined;
  const file = join(directory, "seccomp.bpf");
  writeFileSync(file, filter);
  return file;
}

function findInPath(name: string): string | undefined {
  const directories = (process.env.PATH ?? "/usr/bin:/bin").split(delimiter);
  return directories.map((directory) => join(directory, name)).find((path) => existsSync(path));
}

interface NodeFlags {
  readonly read: readonly string[];
  readonly write: readonly string[];
  /** Node knows only all or nothing here; which hosts is decided outside. */
  readonly network: boolean;
  readonly memoryMb: number;
}

const known = process.allowedNodeEnvironmentFlags;

/** This Node can keep a process from the network by itself. */
const nodeGuardsNetwork = known.has("--allow-net");

/** Everything that closes a door of Node. Flags that this Node does not know have no door to close. */
const closed = [
  // Without it node:sqlite opens any file, past the permissions.
  "--no-experimental-sqlite",
  "--no-addons",
  "--no-experimental-ffi",
  "--no-experimental-webstorage",
  "--disable-sigusr1",
].filter((flag) => known.has(flag) || known.has(flag.replace("--no-", "--")));

export function nodeFlags({ read, write, network, memoryMb }: NodeFlags): string[] {
  return [
    "--permission",
    // Flags of the engine can write files past the permissions (--trace-turbo-path). This makes their memory read-only.
    "--freeze-flags-after-init",
    ...closed,
    ...read.map((path) => `--allow-fs-read=${path}`),
    ...write.flatMap((path) => [`--allow-fs-read=${path}`, `--allow-fs-write=${path}`]),
    ...(network && nodeGuardsNetwork ? ["--allow-net"] : []),
    `--max-old-space-size=${memoryMb}`,
    "--disable-warning=SecurityWarning",
    "--disable-warning=ExperimentalWarning",
  ];
}

/** Give Node the code itself. */
const evaluating: Readonly<Record<string, readonly string[]>> = {
  "-e": [],
  "--eval": [],
  "-p": ["--print"],
  "--print": ["--print"],
};

/**
 * The arguments for Node where its own permissions are all that holds a program: a script or code, and what comes after
 * is the program's. An option of Node could take the permissions off, so all others are refused.
 */
export function nodeArguments(label: string, [first, ...rest]: readonly string[]): string[] {
  if (first === undefined) return [];
  const flags = Object.hasOwn(evaluating, first) ? evaluating[first] : undefined;
  if (flags !== undefined) {
    const [code = "", ...args] = rest;
    return [...flags, `--eval=${code}`, "--", ...args];
  }
  if (!first.startsWith("-")) return ["--", first, ...rest];
  throw new SandboxError(
    "sandbox_refused",
    `${label} wants to start Node with the option ${first.split("=")[0]}. At the reduced isolation of this server a script can be started, or code with -e or -p, and no other option of Node be given. Install bubblewrap to use all of them.`,
  );
}

/**
 * Variables that make Node, the loader of programs, OpenSSL or the shell before it run or load something else. A shell
 * may take even a function from a variable, whose name then has signs in it that no other name has.
 */
const steering = /^(node_|ld_|dyld_|openssl_|gconv_|glibc_|bash|shellopts$|nlspath$|locpath$)/i;
const plainName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** A program's own variables, without those that steer what runs it. */
export function nodeEnvironment(environment: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => plainName.test(name) && !steering.test(name)),
  );
}

const closeOnExec = 0o2000000;

type Stdio = ("pipe" | "ignore" | number)[];

/**
 * Stdin, stdout, stderr, the channel, and one file that the start needs; and no other open file of the server.
 * Node's own files stay out of other programs by themselves. Those that the server was started with do not.
 */
export function confinedStdio(file: number | undefined): Stdio {
  const stdio: Stdio = ["pipe", "pipe", "pipe", "pipe", file ?? "ignore"];
  inherited ??= inheritedDescriptors();
  if (inherited.length === 0) return stdio;
  nothing ??= openSync("/dev/null", "r");
  for (let descriptor = stdio.length; descriptor <= Math.max(...inherited); descriptor++)
    stdio.push(inherited.includes(descriptor) ? nothing : "ignore");
  return stdio;
}

let inherited: readonly number[] | undefined;
let nothing: number | undefined;

/** Open files above those that `confinedStdio` sets, which programs started from here would have too. */
function inheritedDescriptors(): number[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc/self/fdinfo")
    .map(Number)
    .filter((descriptor) => descriptor > 4 && isPassedOn(descriptor));
}

function isPassedOn(descriptor: number): boolean {
  try {
    const flags =
      /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8"))?.[1] ?? "0";
    return (Number.parseInt(flags, 8) & closeOnExec) === 0;
  } catch {
    // It was closed in the meantime, such as the one that listed the directory.
    return false;
  }
}
