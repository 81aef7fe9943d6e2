import { call } from "./call.ts";
import { files } from "./files.ts";
import { http } from "./http.ts";
import { registry } from "./registry.ts";

export const suites = { call, registry, files, http };

export type SuiteName = keyof typeof suites;
