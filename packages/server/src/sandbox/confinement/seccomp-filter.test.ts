import { describe, expect, it } from "vitest";
import { seccompFilter } from "./bubblewrap.ts";

const processors = {
  x64: { architecture: 0xc000003e, socket: 41, socketpair: 53, clone: 56, ptrace: 101, read: 0 },
  arm64: { architecture: 0xc00000b7, socket: 198, socketpair: 199, clone: 220, ptrace: 117, read: 63 },
} as const;
const ioUringSetup = 425;
const clone3 = 435;

/** Runs the program as the kernel does, on one call. Of another processor than this one there is no other way to try it. */
function decide(program: Buffer, architecture: number, call: number, argument = 0): string {
  const data = new Map([
    [0, call],
    [4, architecture],
    [16, argument],
  ]);
  let accumulator = 0;
  for (let at = 0; at < program.length / 8; at++) {
    const code = program.readUInt16LE(at * 8);
    const value = program.readUInt32LE(at * 8 + 4);
    const jump = (isTrue: boolean) => program.readUInt8(at * 8 + (isTrue ? 2 : 3));
    if (code === 0x20) accumulator = data.get(value) ?? Number.NaN;
    else if (code === 0x15) at += jump(accumulator === value);
    else if (code === 0x35) at += jump(accumulator >= value);
    else if (code === 0x45) at += jump((accumulator & value) !== 0);
    else if (code === 0x06) return nameOf(value);
    else
      throw new Error(`The program has the instruction ${code.toString(16)}, which this test does not know.`);
  }
  throw new Error("The program ends without a decision.");
}

function nameOf(decision: number): string {
  if (decision === 0x7fff0000) return "allow";
  if (decision === 0x80000000) return "kill";
  return { 1: "EPERM", 38: "ENOSYS", 97: "EAFNOSUPPORT" }[decision & 0xffff] ?? String(decision);
}

describe.each(Object.entries(processors))("the filter of %s", (processor, numbers) => {
  const { architecture, socket, socketpair, clone, ptrace, read } = numbers;
  const program = seccompFilter(processor)!;
  const decisionOn = (call: number, argument?: number) => decide(program, architecture, call, argument);

  it.each([
    ["unix", 1],
    ["inet", 2],
    ["inet6", 10],
    ["netlink", 16],
  ])("lets sockets of the family %s be made", (_, family) => {
    for (const call of [socket, socketpair]) expect(decisionOn(call, family)).toBe("allow");
  });

  it("lets sockets of no other family be made", () => {
    for (let family = 0; family < 64; family++) {
      if ([1, 2, 10, 16].includes(family)) continue;
      for (const call of [socket, socketpair]) expect(decisionOn(call, family)).toBe("EAFNOSUPPORT");
    }
    expect(decisionOn(socket, 0xffffffff)).toBe("EAFNOSUPPORT");
  });

  it("refuses ways around it: io_uring, the numbers of another processor, the second numbering", () => {
    expect(decisionOn(ioUringSetup)).toBe("EPERM");
    for (const other of [0x40000003, 0x40000028, 0]) expect(decide(program, other, socket, 2)).toBe("kill");
    expect(decisionOn(0x40000000 + socket, 2)).toBe("ENOSYS");
  });

  it("refuses new namespaces and calls that nobody needs, and lets all others pass", () => {
    expect(decisionOn(clone, 0x10000000)).toBe("EPERM");
    expect(decisionOn(clone, 0x11)).toBe("allow");
    expect(decisionOn(clone3)).toBe("ENOSYS");
    expect(decisionOn(ptrace)).toBe("EPERM");
    expect(decisionOn(read, 40)).toBe("allow");
  });
});

it("there is none for a processor whose numbers are not known", () => {
  expect(seccompFilter("riscv64")).toBeUndefined();
});
