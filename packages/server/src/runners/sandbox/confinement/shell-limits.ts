export interface ShellLimits {
  readonly dataKb?: number;
  readonly fileMb: number;
  readonly openFiles: number;
  readonly processes?: number;
  readonly cpuSeconds?: number;
}

/**
 * A command that sets limits and becomes the program after it. A limit that cannot be set is already lower. Shells
 * disagree on the letter for processes, and on the unit of file sizes by a factor of two.
 */
export function withShellLimits(limits: ShellLimits): string[] {
  const { dataKb, fileMb, openFiles, processes, cpuSeconds } = limits;
  const settings = [
    "ulimit -c 0",
    `ulimit -f ${fileMb * 1024}`,
    `ulimit -n ${openFiles}`,
    ...(dataKb === undefined ? [] : [`ulimit -d ${dataKb}`]),
    ...(cpuSeconds === undefined ? [] : [`ulimit -t ${cpuSeconds}`]),
    ...(processes === undefined ? [] : [`ulimit -u ${processes} || ulimit -p ${processes}`]),
  ];
  return ["/bin/sh", "-c", `{ ${settings.join("; ")}; } 2>/dev/null; exec "$@"`, "sh"];
}
