import { resolve } from "node:path";

/**
 * The words that start this program again, from any folder and without a shell: the same Node, the options it was given,
 * and the file that it runs. What only a debugger asked for is left out, for two programs cannot share its port.
 */
export function ownProgram(): string[] {
  const options = process.execArgv.filter(
    (option) => !/^--(inspect|debug|watch|cpu-prof|heap-prof)/.test(option),
  );
  return [process.execPath, ...options, resolve(process.argv[1] ?? "")];
}
