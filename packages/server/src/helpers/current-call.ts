import { AsyncLocalStorage } from "node:async_hooks";
import type { ToolContext } from "@toolrack/core";

/** The call whose code runs now, for contracts whose functions get no context. */
export const currentCall = new AsyncLocalStorage<ToolContext>();
