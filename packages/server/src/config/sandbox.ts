import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { plainHost } from "../helpers/index.ts";

/** What the operator lets one sandboxed tool have, beside what every tool has. */
export interface SandboxGrant {
  /** Network hosts: `api.example.com`, `*.example.com`, `localhost:8080`, or `*` for every public one. */
  readonly hosts?: readonly string[];
  /** Tools outside the sandbox that it may call, as patterns: `internal_file_*`, `mcp:KEY`. */
  readonly tools?: readonly string[];
  /** Values of its environment that are no secrets. Secrets are set with `toolrack secrets set TOOL NAME`. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** How code is run that nobody reviewed. */
export interface SandboxConfig {
  /** By the name of the tool. */
  readonly grants?: Readonly<Record<string, SandboxGrant>>;
  /** Refuse to run sandboxed tools where the sandbox is weaker than this level. */
  readonly require?: 2 | 3;
  /** Let tools that came from elsewhere run although only level 2 can be had. Default false. */
  readonly allowForeign?: boolean;
  /** For every sandboxed tool. */
  readonly limits?: Partial<WorkerLimits>;
}

/** What one worker may use. Everything has a default; see `defaultLimits`. */
export interface WorkerLimits {
  /**
   * All memory of the worker's heap, buffers included. A worker that wants more ends, and its calls fail. So does a
   * program that, with all that it started, has more.
   */
  readonly memoryMb: number;
  /** Processor time of one call. Above it the worker is killed. Between calls a worker has a second. */
  readonly cpuSeconds: number;
  /** Processes and threads at once. At level 3 only programs that `run` started can make more. */
  readonly processes: number;
  /** What a call may answer, log and report together, in bytes. */
  readonly outputBytes: number;
  /** Size of the private scratch directory. At level 2 whoever writes more is ended a moment later. */
  readonly scratchMb: number;
  /** After this many calls the worker ends and another takes its place. */
  readonly maxCallsPerWorker: number;
  /** A worker that had no call for this long ends. */
  readonly idleMs: number;
  /** Calls at once in one worker. When all are busy, another worker is started. */
  readonly concurrency: number;
  /**
   * Workers at once for one key. Calls above that wait. Calls that other calls wait for have as many of their own, at
   * each depth: otherwise those who wait could hold all the workers that they wait for.
   */
  readonly workers: number;
  /** Evaluating the module and `init` together. */
  readonly initMs: number;
  /** `cleanup`, before the worker is killed. */
  readonly cleanupMs: number;
  /** Between the abort of a call's signal and the end of a worker that does not heed it. */
  readonly graceMs: number;
}

export const defaultLimits: WorkerLimits = {
  memoryMb: 256,
  cpuSeconds: 60,
  processes: 64,
  outputBytes: 10 * 1024 * 1024,
  scratchMb: 64,
  maxCallsPerWorker: 1000,
  idleMs: 60_000,
  concurrency: 4,
  workers: 4,
  initMs: 10_000,
  cleanupMs: 2_000,
  graceMs: 1_000,
};

/** In milliseconds. Beyond it a timer would not be late but go off at once. */
const longestTimer = 2 ** 31 - 1;

export function withDefaultLimits(limits: Partial<WorkerLimits> | undefined): WorkerLimits {
  if (limits === undefined) return defaultLimits;
  const { initMs, cleanupMs, graceMs, ...rest } = { ...defaultLimits, ...limits };
  return {
    ...rest,
    initMs: timerMs(initMs),
    cleanupMs: timerMs(cleanupMs),
    graceMs: timerMs(graceMs),
  };
}

export function timerMs(milliseconds: number): number {
  return Math.min(milliseconds, longestTimer);
}

/** The hosts that a piece of code may reach. */
export interface Grants {
  allows(host: string, port: number): boolean;
  /**
   * Granted addresses, ranges of addresses, and names that only the own network can give away. These may be private.
   * The owner of any other name can make it lead to this machine, so such a name alone opens nothing private.
   */
  readonly mayBePrivate: readonly string[];
}

const webPorts: readonly number[] = [80, 443];

/**
 * `api.example.com` grants that name, `*.example.com` every name below it, `*` every name and public address, all on
 * the ports of the web; `host:8080` grants that port alone. A range such as `10.0.0.0/8` grants nothing by itself;
 * granted names may lead into it. An entry that is none of these grants nothing; `grantProblem` says why.
 */
export function parseGrants(hosts: readonly string[]): Grants {
  const entries = hosts.map(parseEntry);
  return {
    allows: (host, port) => {
      const name = plainHost(host);
      return entries.some((entry) => entry.ports.includes(port) && entry.matches(name));
    },
    mayBePrivate: entries.flatMap(({ localHost }) => (localHost === undefined ? [] : [localHost])),
  };
}

interface Entry {
  readonly ports: readonly number[];
  readonly localHost?: string;
  matches(name: string): boolean;
}

/** What is wrong with a grant, and what to write instead; nothing when it is one. */
export function grantProblem(text: string): string | undefined {
  const { name, port } = split(text);
  if (port !== undefined && port > 65_535) return `${JSON.stringify(text)} has a port above 65535.`;
  if (isGrantable(name)) return undefined;
  const meant = meantBy(text);
  const what = `${JSON.stringify(text)} is not a host, and grants nothing.`;
  return meant === undefined
    ? `${what} Write a host such as "api.example.com", "*.example.com", "localhost:8080", or "*" for every public one.`
    : `${what} Write "${meant}".`;
}

function isGrantable(name: string): boolean {
  if (name === "*" || isIP(name) !== 0 || ipaddr.isValidCIDR(name)) return true;
  const host = name.startsWith("*.") ? name.slice(2) : name;
  // A number in another spelling would never be found under this name.
  return hostName.test(host) && URL.canParse(`http://${host}`) && new URL(`http://${host}`).hostname === host;
}

const hostName = /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/;

/** The host in an address of the web, or in another spelling of the name. */
function meantBy(text: string): string | undefined {
  const address = text.includes("://") ? text : `http://${text}`;
  if (!URL.canParse(address)) return undefined;
  const { host } = new URL(address);
  return isGrantable(split(host).name) ? host : undefined;
}

/** A name without brackets, and the port that it may have. An empty name when it is neither. */
function split(text: string): { readonly name: string; readonly port?: number } {
  const plain = text.trim();
  // An address with colons in it, and no brackets, has no port.
  if (isIP(plain) === 6 || ipaddr.isValidCIDR(plain)) return { name: plainHost(plain) };
  const [, host = "", port] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(plain) ?? [];
  return {
    name: host === "*." ? "" : plainHost(host),
    ...(port === undefined ? {} : { port: Number(port) }),
  };
}

function parseEntry(text: string): Entry {
  const { name, port } = split(text);
  if (!isGrantable(name)) return { ports: [], matches: () => false };
  const ports = port === undefined ? webPorts : [port];
  if (name === "*") return { ports, matches: () => true };
  if (name.startsWith("*.")) {
    const suffix = name.slice(1);
    return { ports, matches: (other) => other.endsWith(suffix) && other.length > suffix.length };
  }
  const matches = (other: string) => other === name;
  return isLocal(name) ? { ports, localHost: name, matches } : { ports, matches };
}

/** Names without a dot and those below these endings are never sold to anybody. */
const localEndings = /\.(localhost|local|internal|lan|home\.arpa|test)$/;

function isLocal(name: string): boolean {
  return isIP(name) !== 0 || name.includes("/") || !name.includes(".") || localEndings.test(name);
}
