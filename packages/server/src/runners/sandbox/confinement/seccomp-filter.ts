/** System calls that no tool needs and that open much of the kernel, by their numbers on each processor. */
const refused = {
  x64: {
    architecture: 0xc000003e,
    clone: 56,
    // ptrace syslog pivot_root chroot acct mount umount2 swapon swapoff reboot sethostname setdomainname iopl ioperm
    // init_module delete_module quotactl kexec_load add_key request_key keyctl unshare perf_event_open fanotify_init
    // open_by_handle_at setns process_vm_readv process_vm_writev kcmp finit_module kexec_file_load bpf userfaultfd
    calls: [
      101, 103, 155, 161, 163, 165, 166, 167, 168, 169, 170, 171, 172, 173, 175, 176, 179, 246, 248, 249, 250,
      272, 298, 300, 304, 308, 310, 311, 312, 313, 320, 321, 323,
    ],
  },
  arm64: {
    architecture: 0xc00000b7,
    clone: 220,
    calls: [
      117, 116, 41, 51, 89, 40, 39, 224, 225, 142, 161, 162, 105, 106, 60, 104, 217, 218, 219, 97, 241, 262,
      265, 268, 270, 271, 272, 273, 294, 280, 282,
    ],
  },
} as const;

/** The same everywhere: io_uring_*, open_tree … fspick, pidfd_getfd, mount_setattr, quotactl_fd. */
const refusedEverywhere = [425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 443];
const clone3 = 435;
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const newNamespaces = 0x7e020000;

const loadWord = 0x20;
const jumpIfEqual = 0x15;
const jumpIfAtLeast = 0x35;
const jumpIfAnyBit = 0x45;
const give = 0x06;
const allow = 0x7fff0000;
const kill = 0x80000000;
const notPermitted = 0x00050000 | 1;
const notThere = 0x00050000 | 38;

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];

/** A program for bubblewrap's `--seccomp`, or nothing for processors whose numbers are not listed. */
export function seccompFilter(processor: string = process.arch): Buffer | undefined {
  if (processor !== "x64" && processor !== "arm64") return undefined;
  const { architecture, clone, calls } = refused[processor];
  const numbers = [...calls, ...refusedEverywhere];
  const instructions: Instruction[] = [
    [loadWord, 0, 0, 4],
    [jumpIfEqual, 1, 0, architecture],
    [give, 0, 0, kill],
    [loadWord, 0, 0, 0],
    // The second numbering of x64 would be a way around every number below.
    [jumpIfAtLeast, 0, 1, 0x40000000],
    [give, 0, 0, notThere],
    ...numbers.flatMap((number): Instruction[] => [
      [jumpIfEqual, 0, 1, number],
      [give, 0, 0, notPermitted],
    ]),
    // Its flags are out of a filter's sight; without it, programs fall back to clone.
    [jumpIfEqual, 0, 1, clone3],
    [give, 0, 0, notThere],
    [jumpIfEqual, 0, 3, clone],
    [loadWord, 0, 0, 16],
    [jumpIfAnyBit, 0, 1, newNamespaces],
    [give, 0, 0, notPermitted],
    [give, 0, 0, allow],
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
