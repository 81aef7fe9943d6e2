import { vi } from "vitest";

/** A limit is for what hangs, not for what a busy machine makes slow; Vitest's own is a second. */
const PATIENCE = 20_000;

const { waitFor, waitUntil } = vi;
vi.waitFor = (callback, options = PATIENCE) => waitFor(callback, options);
vi.waitUntil = (callback, options = PATIENCE) => waitUntil(callback, options);
