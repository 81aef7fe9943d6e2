import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { closeSync, existsSync, lstatSync, openSync, readlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { type EgressAddress, egressEnvironment } from "../egress/forward-egress.ts";
import { type ProgramOrder, programBootstrap } from "../program-bootstrap.ts";
import { workerBootstrap } from "../worker-bootstrap.ts";
import { confinedStdio } from "./confined-stdio.ts";
import type { Confinement, Launched, ProgramShape, WorkerShape } from "./confinement.ts";
import { nodeFlags } from "./node-flags.ts";
import { type ShellLimits, withShellLimits } from "./shell-limits.ts";
import { timeZone } from "./time-zone.ts";
import { nextUserId } from "./user-ids.ts";

export interface BubblewrapOptions {
  readonly bubblewrap: string;
  /** Who may not make namespaces needs one of users first. Root does without it, and becomes a user of its own inside. */
  readonly userNamespace: boolean;
  /** Containers often do not let another /proc be mounted. */
  readonly proc: boolean;
  readonly seccompFile?: string;
  /** What Node counts as data before it has run a line; see `measureData`. */
  readonly nodeDataKb?: number;
}

const node = "/toolrack/node";
const scratch = "/scratch";
const code = "/code";
const programDirectory = "/program";
const extraAuthorities = "/extra-authorities.pem";
const egress: EgressAddress = { socketPath: "/egress.sock", port: 3128 };
/** Threads' stacks and the allocator's own. */
const overheadMb = 64;

/** Level 3: namespaces of its own for everything, an almost empty read-only file system, and Node's permissions. */
export function bubblewrapConfinement(options: BubblewrapOptions): Confinement {
  const libraries = librariesOf(process.execPath);
  const memoryKb = (memoryMb: number) =>
    options.nodeDataKb === undefined ? {} : { dataKb: options.nodeDataKb + (memoryMb + overheadMb) * 1024 };

  return {
    level: 3,

    startWorker({ dependencies, egressSocket, memoryMb, scratchMb }: WorkerShape): Launched {
      const uid = options.userNamespace ? undefined : nextUserId();
      const network = egressSocket === undefined ? {} : { egress };
      const child = start(
        options,
        { ...memoryKb(memoryMb), fileMb: scratchMb, openFiles: 256 },
        [
          ...bindEach(libraries),
          ...(options.proc ? ["--proc", "/proc"] : []),
          ...(dependencies === undefined ? [] : ["--ro-bind", dependencies, code]),
          ...bindEgress(egressSocket),
          ...scratchAt(scratch, scratchMb),
          ...["--setenv", "HOME", scratch, "--setenv", "TMPDIR", scratch, "--setenv", "TZ", timeZone()],
          ...["--chdir", scratch],
        ],
        [
          ...nodeFlags({ read: [code], write: [scratch], network: egressSocket !== undefined, memoryMb }),
          "-e",
          workerBootstrap({ ...(uid === undefined ? {} : { uid }), ...network }),
        ],
      );
      return { child, codeDirectory: code, release() {} };
    },

    startProgram({ program, egressSocket, limits }: ProgramShape): Launched {
      const uid = options.userNamespace ? undefined : nextUserId();
      const network = egressSocket === undefined ? {} : { egress };
      const child = start(
        options,
        { fileMb: limits.scratchMb, openFiles: 1024 },
        [
          ...systemDirectories(),
          ...(options.proc ? ["--proc", "/proc"] : []),
          // Bubblewrap's own /dev has room without end, and the room of memory.
          ...["--dev", "/dev", ...scratchAt("/dev/shm", limits.scratchMb), "--remount-ro", "/dev"],
          ...["--ro-bind", program.directory, programDirectory],
          ...bindEgress(egressSocket),
          ...scratchAt("/tmp", limits.scratchMb),
          ...["--chdir", programDirectory],
        ],
        ["-e", programBootstrap({ ...(uid === undefined ? {} : { uid }), ...network })],
      );
      const order: ProgramOrder = {
        command: [
          // What Node takes before its first line is allowed to all programs, as any of them may start Node.
          ...programLimits(limits, memoryKb(limits.memoryMb)),
          program.command,
          ...program.args,
        ],
        environment: {
          PATH: "/toolrack:/usr/local/bin:/usr/bin:/bin",
          HOME: "/tmp",
          TMPDIR: "/tmp",
          LANG: "C.UTF-8",
          TZ: timeZone(),
          ...(egressSocket === undefined ? {} : egressEnvironment(egress)),
          ...program.environment,
        },
      };
      channelOf(child).write(`${JSON.stringify(order)}\n`);
      return { child, codeDirectory: programDirectory, release() {} };
    },
  };
}

function start(
  options: BubblewrapOptions,
  limits: ShellLimits,
  mounts: readonly string[],
  nodeArgs: readonly string[],
): ChildProcess {
  const [shell = "", ...shellArgs] = withShellLimits(limits);
  // Opened for each process, because bubblewrap reads it from where the last reader left off.
  const seccomp = options.seccompFile === undefined ? undefined : openSync(options.seccompFile, "r");
  try {
    return spawn(
      shell,
      [
        ...shellArgs,
        options.bubblewrap,
        ...namespaces(options),
        ...["--die-with-parent", "--new-session", "--clearenv"],
        ...(seccomp === undefined ? [] : ["--seccomp", "4"]),
        // Left to bubblewrap, the directory would be closed to users other than root.
        ...["--perms", "0755", "--dir", dirname(node), "--ro-bind", process.execPath, node],
        ...mounts,
        ...["--remount-ro", "/", "--", node],
        ...nodeArgs,
      ],
      { stdio: confinedStdio(seccomp), env: {}, cwd: "/", detached: true },
    );
  } finally {
    if (seccomp !== undefined) closeSync(seccomp);
  }
}

function namespaces({ userNamespace }: BubblewrapOptions): string[] {
  return [
    ...(userNamespace ? ["--unshare-user", "--uid", "65534", "--gid", "65534"] : []),
    ...["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
    ...["--hostname", "sandbox"],
  ];
}

function programLimits(
  { scratchMb, processes, cpuSeconds }: ProgramShape["limits"],
  data: { dataKb?: number },
): [string, ...string[]] {
  const [shell = "", ...rest] = withShellLimits({
    ...data,
    fileMb: scratchMb,
    openFiles: 256,
    processes,
    cpuSeconds,
  });
  return [shell, ...rest];
}

function scratchAt(path: string, sizeMb: number): string[] {
  return ["--perms", "0777", "--size", String(sizeMb * 1024 * 1024), "--tmpfs", path];
}

function bindEach(paths: readonly string[]): string[] {
  return paths.flatMap((path) => ["--ro-bind", path, path]);
}

function bindEgress(socket: string | undefined): string[] {
  if (socket === undefined) return [];
  const variables = Object.entries(egressEnvironment(egress));
  // Authorities that the operator trusts beyond the usual ones, such as those of a company's network.
  const authorities = process.env.NODE_EXTRA_CA_CERTS;
  const hasAuthorities = authorities !== undefined && existsSync(authorities);
  return [
    ...["--bind", socket, egress.socketPath],
    ...(hasAuthorities ? ["--ro-bind", authorities, extraAuthorities] : []),
    ...(hasAuthorities ? ["--setenv", "NODE_EXTRA_CA_CERTS", extraAuthorities] : []),
    ...variables.flatMap(([name, value]) => ["--setenv", name, value]),
  ];
}

/** What `ldd` says the loader will open: enough for Node, and nothing else of the system is in sight. */
function librariesOf(binary: string): string[] {
  const text = execFileSync("ldd", [binary], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  return [...new Set(text.match(/\/[^\s()]+/g) ?? [])].filter((path) => existsSync(path));
}

/** Programs and their libraries, and of /etc only what describes the machine to them, nothing about its people. */
function systemDirectories(): string[] {
  const described = [
    "alternatives",
    "ca-certificates",
    "fonts",
    "ld.so.cache",
    "localtime",
    "mime.types",
    "pki/ca-trust",
    "pki/tls/certs",
    "ssl/certs",
    "ssl/openssl.cnf",
  ]
    .map((name) => join("/etc", name))
    .filter((path) => existsSync(path));
  return [
    ...["--ro-bind", "/usr", "/usr"],
    ...["/bin", "/sbin", "/lib", "/lib32", "/lib64"].flatMap((path) => {
      if (!existsSync(path)) return [];
      if (lstatSync(path).isSymbolicLink()) return ["--symlink", readlinkSync(path), path];
      return ["--ro-bind", path, path];
    }),
    ...[...new Set(described.map((path) => dirname(path)))]
      .sort()
      .flatMap((directory) => ["--perms", "0755", "--dir", directory]),
    ...bindEach(described),
  ];
}

function channelOf(child: ChildProcess): NodeJS.WritableStream {
  // Stdio 3 is a pipe in both directions; Node's types know only the first three.
  return child.stdio[3] as unknown as NodeJS.WritableStream;
}
