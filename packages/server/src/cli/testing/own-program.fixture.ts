import { ownProgram } from "../cli.ts";

console.log(JSON.stringify(ownProgram()));
