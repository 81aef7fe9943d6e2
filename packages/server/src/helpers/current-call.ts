import { AsyncLocalStorage } from "node:async_hooks";
import type { ToolContext } from "@toolrack/core";

/** The call inside which code runs, for contracts whose functions are not handed a context. */
export const currentCall = new AsyncLocalStorage<ToolContext>();
