import { readFileSync } from "node:fs";

/** Processor seconds of a process and all that came from it and still lives. Nothing where there is no /proc. */
export function cpuSecondsOfTree(pid: number): number | undefined {
  try {
    return treeOf(pid).reduce((sum, member) => sum + cpuSeconds(member), 0);
  } catch {
    return undefined;
  }
}

/** The most that a process of the tree has mapped as data, in KB, which is what the limit on data counts. */
export function dataKbOfTree(pid: number): number | undefined {
  try {
    return Math.max(...treeOf(pid).map(dataKb));
  } catch {
    return undefined;
  }
}

/** Ends a process group for good. Whoever is gone already is no error. */
export function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {}
}

function treeOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return [pid, ...(children === "" ? [] : children.split(" ").flatMap((child) => treeOf(Number(child))))];
}

/** Linux counts in hundredths of a second, on every machine that Node runs on. */
function cpuSeconds(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function dataKb(pid: number): number {
  return Number(/^VmData:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
}
