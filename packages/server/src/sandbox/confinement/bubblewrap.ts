import { type ChildProcess, execFile } from "node:child_process";
import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { defined } from "../../helpers/index.ts";
import { linkFolders } from "../data-folder.ts";
import { egressAddress, egressEnvironment } from "../egress.ts";
import { type ProgramOrder, programBootstrap } from "../program.ts";
import type { DataFolder, OpenedFolders } from "../sandbox-types.ts";
import { workerBootstrap } from "../worker-bootstrap.ts";
import {
  type Confinement,
  nextUserId,
  nodeFlags,
  type ShellLimits,
  spawnLimited,
  timeZone,
  withShellLimits,
} from "./confinement.ts";

interface BubblewrapOptions {
  readonly bubblewrap: string;
  /** The libraries that Node needs: see `librariesOf`. */
  readonly libraries: readonly string[];
  /**
   * Whether bubblewrap creates a user namespace, which it needs unless the server is root. Without one, the
   * process starts as root and then changes its own user.
   */
  readonly userNamespace: boolean;
  /** Whether the sandbox mounts a /proc of its own. Many containers do not allow that mount. */
  readonly proc: boolean;
  readonly seccompFile?: string;
  /** The `/etc/hosts` of programs: the name of the machine and `localhost`, which they look up without a network. */
  readonly hostsFile: string;
  /** KB of data memory that a Node process uses right after its start, as `findConfinement` measured it. */
  readonly nodeDataKb?: number;
}

// Below one folder, because a workspace may lie in /data or /code, and its opened folders are mounted at their own paths.
const node = "/toolrack/node";
const scratch = "/toolrack/scratch";
const code = "/toolrack/code";
const programDirectory = "/toolrack/program";
const home = "/toolrack/data";

/**
 * Level 3: each process has namespaces of its own and sees a read-only file system with few files of the
 * host. Workers also run under Node's permissions.
 */
export function bubblewrapConfinement(options: BubblewrapOptions): Confinement {
  const { proc, nodeDataKb: nodeKb, libraries } = options;
  const bootstrapOptions = (egressSocket: string | undefined, data: DataFolder | undefined) => ({
    ...defined({ uid: options.userNamespace ? undefined : (data?.uid ?? nextUserId()) }),
    ...(egressSocket !== undefined && { egress: egressAddress }),
  });

  return {
    level: 3,
    placeOf: () => home,

    startWorker({ dependencies, egressSocket, memoryMb, scratchMb, dataMb, data, folders = [] }) {
      const own = data === undefined ? scratch : home;
      const child = start(
        options,
        { data: { nodeKb, memoryMb }, fileMb: largestFile(scratchMb, dataMb, data), openFiles: 256 },
        [
          ...bindEach(libraries),
          ...(proc ? ["--proc", "/proc"] : []),
          ...(dependencies === undefined ? [] : ["--ro-bind", dependencies, code]),
          ...bindEgress(egressSocket),
          ...scratchAt(scratch, scratchMb),
          ...bindFolders({ folders, ...defined({ data }) }),
          ...setEach({ HOME: own, TMPDIR: scratch, TZ: timeZone() }),
          ...["--chdir", own],
        ],
        [
          ...nodeFlags(
            [code, ...folders.map(({ path }) => path)],
            [scratch, own, ...folders.flatMap(({ path, isWritable }) => (isWritable ? [path] : []))],
            egressSocket !== undefined,
            memoryMb,
          ),
          "-e",
          workerBootstrap(bootstrapOptions(egressSocket, data)),
        ],
      );
      return { child, codeDirectory: code, release() {}, ...defined({ data }) };
    },

    startProgram({ program, egressSocket, limits }) {
      const { memoryMb, scratchMb, dataMb, processes, cpuSeconds } = limits;
      const { data, dependencies, folders = [] } = program;
      const fileMb = largestFile(scratchMb, dataMb, data);
      const isAtHome = program.directory === data?.path;
      // The system counts the processes of a user. The tool's workers and other programs have the same user.
      const most = data?.uid === undefined ? processes : processes * 8;
      const child = start(
        options,
        { fileMb, openFiles: 1024 },
        [
          ...systemDirectories(),
          ...["--ro-bind", options.hostsFile, "/etc/hosts"],
          ...(proc ? ["--proc", "/proc"] : []),
          // The file system that bubblewrap mounts at /dev is in memory and has no size limit. So /dev is
          // made read-only, and /dev/shm gets a limited file system of its own.
          ...["--dev", "/dev", ...scratchAt("/dev/shm", scratchMb), "--remount-ro", "/dev"],
          ...(isAtHome ? [] : ["--ro-bind", program.directory, programDirectory]),
          ...(dependencies === undefined ? [] : ["--ro-bind", dependencies, code]),
          ...bindEgress(egressSocket),
          ...scratchAt("/tmp", scratchMb),
          ...bindFolders({ folders, ...defined({ data }) }),
          ...["--chdir", isAtHome ? home : programDirectory],
        ],
        ["--disable-sigusr1", "-e", programBootstrap(bootstrapOptions(egressSocket, data))],
      );
      const order: ProgramOrder = {
        command: withShellLimits(
          // The limit of every program includes the memory of a fresh Node process, because any program may
          // start Node.
          { data: { nodeKb, memoryMb }, fileMb, openFiles: 256, processes: most, cpuSeconds },
          [program.command, ...program.args],
        ),
        environment: {
          PATH: "/toolrack:/usr/local/bin:/usr/bin:/bin",
          HOME: data === undefined ? "/tmp" : home,
          TMPDIR: "/tmp",
          LANG: "C.UTF-8",
          TZ: timeZone(),
          ...(dependencies !== undefined && { NODE_PATH: join(code, "node_modules") }),
          ...(egressSocket !== undefined && egressEnvironment),
          ...program.environment,
        },
      };
      // Stdio 3 is a pipe in both directions; Node's types know only stdin, stdout and stderr.
      const channel = child.stdio[3] as unknown as NodeJS.WritableStream;
      channel.write(`${JSON.stringify(order)}\n`);
      return { child, codeDirectory: programDirectory, release() {}, ...defined({ data }) };
    },
  };
}

function start(
  { bubblewrap, userNamespace, seccompFile }: BubblewrapOptions,
  limits: ShellLimits,
  mounts: readonly string[],
  nodeArgs: readonly string[],
): ChildProcess {
  const command = [
    bubblewrap,
    ...(userNamespace ? ["--unshare-user", "--uid", "65534", "--gid", "65534"] : []),
    ...["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
    ...["--hostname", "sandbox", "--die-with-parent", "--new-session", "--clearenv"],
    ...(seccompFile === undefined ? [] : ["--seccomp", "4"]),
    // Bubblewrap's default permissions would close the directory to users other than root.
    ...["--perms", "0755", "--dir", dirname(node), "--ro-bind", process.execPath, node],
    ...mounts,
    ...["--remount-ro", "/", "--", node],
    ...nodeArgs,
  ];
  return spawnLimited(limits, command, seccompFile, { env: {}, cwd: "/" });
}

function scratchAt(path: string, sizeMb: number): string[] {
  return ["--perms", "0777", "--size", String(sizeMb * 1024 * 1024), "--tmpfs", path];
}

/** Mounts opened folders at their own paths, which arguments may name. `linkFolders` makes relative paths work too. */
function bindFolders(opened: OpenedFolders): string[] {
  linkFolders(opened);
  const { data, folders = [] } = opened;
  return [
    ...(data === undefined ? [] : ["--bind", data.path, home]),
    ...folders.flatMap(({ path, isWritable }) => [
      ...parentsOf(path).flatMap((parent) => ["--perms", "0755", "--dir", parent]),
      ...[isWritable ? "--bind" : "--ro-bind", path, path],
    ]),
  ];
}

/** The folders above a path, the highest first. Bubblewrap's default permissions would close them to other users. */
function parentsOf(path: string): string[] {
  const parent = dirname(path);
  return parent === dirname(parent) ? [] : [...parentsOf(parent), parent];
}

/** A process with a data folder may write files as large as the folder may be. */
function largestFile(scratchMb: number, dataMb: number, data: DataFolder | undefined): number {
  return data === undefined ? scratchMb : Math.max(scratchMb, dataMb);
}

function bindEach(paths: readonly string[]): string[] {
  return paths.flatMap((path) => ["--ro-bind", path, path]);
}

function setEach(variables: Readonly<Record<string, string>>): string[] {
  return Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]);
}

function bindEgress(socket: string | undefined): string[] {
  if (socket === undefined) return [];
  const mounts = ["--bind", socket, egressAddress.socketPath, ...setEach(egressEnvironment)];
  // Certificate authorities that the operator trusts in addition, such as a company's own.
  const authorities = process.env.NODE_EXTRA_CA_CERTS;
  if (authorities === undefined || !existsSync(authorities)) return mounts;
  const place = "/extra-authorities.pem";
  return [...mounts, "--ro-bind", authorities, place, ...setEach({ NODE_EXTRA_CA_CERTS: place })];
}

/** Finds the libraries that a program needs, with `ldd`. A worker sees no other system files. */
export async function librariesOf(binary: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)("ldd", [binary]);
  return [...new Set(stdout.match(/\/[^\s()]+/g) ?? [])].filter((path) => existsSync(path));
}

/** Mounts programs and their libraries, and only those parts of /etc that say nothing about users. */
function systemDirectories(): string[] {
  const described = (
    "alternatives ca-certificates fonts ld.so.cache localtime mime.types " +
    "pki/ca-trust pki/tls/certs ssl/certs ssl/openssl.cnf"
  )
    .split(" ")
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

/**
 * By processor: in `calls`, the numbers of system calls that are refused because no tool needs them and they
 * expose much of the kernel; beside it, the numbers of three calls that are refused only with certain
 * arguments.
 */
const refused = {
  x64: {
    architecture: 0xc000003e,
    clone: 56,
    socket: 41,
    socketpair: 53,
    // The names of these calls: ptrace syslog pivot_root chroot acct mount umount2 swapon swapoff reboot
    // sethostname setdomainname iopl ioperm init_module delete_module quotactl kexec_load add_key request_key
    // keyctl unshare perf_event_open fanotify_init open_by_handle_at setns process_vm_readv process_vm_writev
    // kcmp finit_module kexec_file_load bpf userfaultfd
    calls: [
      101, 103, 155, 161, 163, 165, 166, 167, 168, 169, 170, 171, 172, 173, 175, 176, 179, 246, 248, 249, 250,
      272, 298, 300, 304, 308, 310, 311, 312, 313, 320, 321, 323,
    ],
  },
  arm64: {
    architecture: 0xc00000b7,
    clone: 220,
    socket: 198,
    socketpair: 199,
    calls: [
      117, 116, 41, 51, 89, 40, 39, 224, 225, 142, 161, 162, 105, 106, 60, 104, 217, 218, 219, 97, 241, 262,
      265, 268, 270, 271, 272, 273, 294, 280, 282,
    ],
  },
} as const;

/**
 * Refused system calls whose numbers are the same on every processor: io_uring_* (which could open sockets
 * unseen by this filter), open_tree … fspick, pidfd_getfd, mount_setattr, quotactl_fd, open_tree_attr.
 */
const refusedEverywhere = [425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 443, 467];
const clone3 = 435;
/** Flags of clone that create namespaces: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const newNamespaces = 0x7e020000;
/**
 * The socket families that are allowed, because a network namespace confines them: AF_UNIX, AF_INET, AF_INET6
 * and AF_NETLINK. Other families escape the namespace: AF_VSOCK leads from a virtual machine to its host.
 */
const families = [1, 2, 10, 16];

const loadWord = 0x20;
const jumpIfEqual = 0x15;
const jumpIfAtLeast = 0x35;
const jumpIfAnyBit = 0x45;
const returnValue = 0x06;
const allow = 0x7fff0000;
const kill = 0x80000000;
const notPermitted = 0x00050000 | 1;
const notThere = 0x00050000 | 38;
const noSuchFamily = 0x00050000 | 97;
// Offsets in the kernel's `seccomp_data`: of the system call's number, of the processor, and of the lower
// half of the call's first argument.
const numberAt = 0;
const architectureAt = 4;
const argumentAt = 16;

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];

/** Makes the BPF program for bubblewrap's `--seccomp`; undefined for a processor not listed in `refused`. */
export function seccompFilter(processor: string = process.arch): Buffer | undefined {
  if (processor !== "x64" && processor !== "arm64") return undefined;
  const { architecture, clone, socket, socketpair, calls } = refused[processor];
  const numbers = [...calls, ...refusedEverywhere];
  const instructions: Instruction[] = [
    [loadWord, 0, 0, architectureAt],
    [jumpIfEqual, 1, 0, architecture],
    [returnValue, 0, 0, kill],
    [loadWord, 0, 0, numberAt],
    // On x64, system calls also have x32 numbers, from 0x40000000 up, which no comparison below would match.
    [jumpIfAtLeast, 0, 1, 0x40000000],
    [returnValue, 0, 0, notThere],
    ...numbers.flatMap((number): Instruction[] => [
      [jumpIfEqual, 0, 1, number],
      [returnValue, 0, 0, notPermitted],
    ]),
    // A filter cannot read the flags of clone3, so clone3 is reported as missing. Programs then use clone.
    [jumpIfEqual, 0, 1, clone3],
    [returnValue, 0, 0, notThere],
    [jumpIfEqual, 1, 0, socket],
    [jumpIfEqual, 0, families.length + 3, socketpair],
    [loadWord, 0, 0, argumentAt],
    ...families.map((family, index): Instruction => [jumpIfEqual, families.length - index, 0, family]),
    [returnValue, 0, 0, noSuchFamily],
    [returnValue, 0, 0, allow],
    [jumpIfEqual, 0, 3, clone],
    [loadWord, 0, 0, argumentAt],
    [jumpIfAnyBit, 0, 1, newNamespaces],
    [returnValue, 0, 0, notPermitted],
    [returnValue, 0, 0, allow],
  ];
  const program = Buffer.alloc(instructions.length * 8);
  for (const [index, [code, ifTrue, ifFalse, value]] of instructions.entries()) {
    program.writeUInt16LE(code, index * 8);
    program.writeUInt8(ifTrue, index * 8 + 2);
    program.writeUInt8(ifFalse, index * 8 + 3);
    program.writeUInt32LE(value, index * 8 + 4);
  }
  return program;
}
