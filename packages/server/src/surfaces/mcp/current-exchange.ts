import { AsyncLocalStorage } from "node:async_hooks";
import type { Exchange } from "./exchange.ts";

/**
 * The exchange in whose work a function runs, however deep in a chain of calls. A question to a person is asked far
 * below, by parts that know of no client.
 */
export const currentExchange = new AsyncLocalStorage<Exchange<unknown>>();
