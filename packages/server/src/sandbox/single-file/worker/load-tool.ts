import fs from "node:fs";
import { compileFunction, constants } from "node:vm";
import type { ToolSource } from "../messages.ts";
import type { ToolModules } from "./tool-require.ts";

/** What a file exports: its methods, and whatever else the author put there. */
export type ToolObject = Record<string, unknown>;

const NOTHING =
  "It exports no tool. Write module.exports = { getMetadata() {…}, getSchema() {…}, execute() {…} }.";

/** What a module of Node has too. A file cannot declare these names anew there either. */
const opening = "return function (exports, require, module) {";

/** Evaluates the file and answers with the object whose methods are the tool. Throws what the file throws. */
export function loadTool({ code, filename }: ToolSource, { require, importx }: ToolModules): ToolObject {
  const module: { exports: unknown } = { exports: {} };
  // Around the file and not parameters of it, so that `const fs = require("fs")` is no second declaration.
  const around = {
    __filename: filename,
    __dirname: process.cwd(),
    __toolrack_import_meta_url: `file://${filename}`,
    process: Object.create(process, { exit: { value: refuseExit } }),
    fs,
    importx,
    loadModule: importx,
    importModule: importx,
  };
  const surround = compileFunction(`${opening}${code}\n}`, Object.keys(around), {
    filename,
    columnOffset: -opening.length,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  const run = surround(...Object.values(around));
  run.call(module.exports, module.exports, require, module);
  return toObject(module.exports);
}

function refuseExit(): never {
  throw new Error("process.exit() is not available to a tool. Return or throw instead.");
}

/** An object as it is, a class as an instance of it, an ES module by its default export or all its names. */
function toObject(exported: unknown): ToolObject {
  if (typeof exported === "function") return fromFunction(exported);
  if (typeof exported !== "object" || exported === null) throw new TypeError(NOTHING);
  const members = exported as ToolObject;
  if (typeof members.execute !== "function" && members.default !== undefined)
    return toObject(members.default);
  if (!hasMembers(members)) throw new TypeError(NOTHING);
  // The names of an ES module cannot be written, and a frozen object takes no `api`.
  if ("__esModule" in members) return { ...members };
  return Object.isExtensible(members) ? members : Object.create(members);
}

// biome-ignore lint/complexity/noBannedTypes: whatever the file exports that can be called.
function fromFunction(exported: Function): ToolObject {
  const { prototype } = exported;
  const isClass = typeof prototype?.execute === "function" || typeof prototype?.getMetadata === "function";
  if (isClass) return Reflect.construct(exported, []);
  const members = exported as unknown as ToolObject;
  if (typeof members.execute === "function") return members;
  throw new TypeError(NOTHING);
}

function hasMembers(members: ToolObject): boolean {
  return ["execute", "getMetadata", "getSchema"].some((name) => name in members);
}
