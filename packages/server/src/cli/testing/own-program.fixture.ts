import { ownProgram } from "../program-words.ts";

console.log(JSON.stringify(ownProgram()));
