import { ownProgram } from "./own-program.ts";

console.log(JSON.stringify(ownProgram()));
