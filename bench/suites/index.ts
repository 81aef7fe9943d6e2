import { call } from "./call.ts";
import { registry } from "./registry.ts";

export const suites = { call, registry };

export type SuiteName = keyof typeof suites;
