import { openSync, readdirSync, readFileSync } from "node:fs";

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
