import { existsSync } from "node:fs";
import { resolve } from "node:path";

/** Why a process could not be started, and what to write instead where that can be seen. */
export function startError(
  error: NodeJS.ErrnoException,
  { command, cwd }: { readonly command: string; readonly cwd: string },
): Error {
  return new Error(`"${command}" cannot be started: ${reasonOf(error, command, cwd)}`, { cause: error });
}

/** The system says the same of a program, of its folder and of what runs it: one of them is not there. */
function reasonOf({ code, message }: NodeJS.ErrnoException, command: string, cwd: string): string {
  if (code !== "ENOENT") return message;
  if (!existsSync(cwd)) return `there is no folder ${cwd} to start it in. Make it, or change "cwd".`;
  if (/[\\/]/.test(command) && existsSync(resolve(cwd, command))) {
    return "the file is there, but not the program that its first line (#!) has it run by.";
  }
  if (/^~[\\/]/.test(command)) {
    return `there is no such program. Only a shell knows "~": write "\${userHome}${command.slice(1)}".`;
  }
  const [program = "", ...words] = command.trim().split(/\s+/);
  if (words.length > 0) {
    return `there is no such program. Are there arguments in "command"? Leave "${program}" there, and put what follows into "args", each word by itself.`;
  }
  return "there is no such program. Install it, or give its whole path.";
}
