/** The command line. `main.ts` runs it; the tests of the documentation read what it offers. */
export { exitCodes } from "./cli-error.ts";
export { makeProgram } from "./program.ts";
export { runCommand, runProgram } from "./run-command.ts";
