/** The command line. `main.ts` runs it; the tests of the documentation read its commands and exit codes. */
export { exitCodes } from "./cli-error.ts";
export { makeProgram } from "./program.ts";
export { runCommand, runProgram } from "./run-command.ts";
