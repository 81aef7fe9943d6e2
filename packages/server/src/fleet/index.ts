export { LaneLink } from "./lane-link.ts";
export { LaneWorker, type LaneWorkerOptions } from "./lane-worker.ts";
export type { LaneConfig, LaneLimit, LaneQueue, LanesConfig, WorkerView } from "./lane-workers.ts";
export { type Handover, Lanes, type LanesOptions } from "./lanes.ts";
