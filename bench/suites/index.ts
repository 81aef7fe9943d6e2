import { call } from "./call.ts";
import { files } from "./files.ts";
import { registry } from "./registry.ts";

export const suites = { call, registry, files };

export type SuiteName = keyof typeof suites;
