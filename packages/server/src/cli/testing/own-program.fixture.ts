import { ownProgram } from "../start-command.ts";

console.log(JSON.stringify(ownProgram()));
