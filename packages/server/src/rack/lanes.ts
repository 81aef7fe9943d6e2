import type { Logger } from "@toolrack/core";
import { handOver } from "@toolrack/core/internal";
import type { ToolValues } from "../access/index.ts";
import type { CallHandover } from "../calls/index.ts";
import {
  type Lanes,
  type LanesConfig,
  type LanesOptions,
  type LaneWorker,
  type LaneWorkerOptions,
  loadLanes,
} from "../fleet/index.ts";
import type { Store } from "../store/index.ts";
import type { App } from "./app.ts";

export interface LaneParts {
  readonly app: Pick<App, "registry" | "book" | "config">;
  readonly store: Pick<Store, "calls">;
  readonly values: Pick<ToolValues, "secrets">;
  readonly logger: Logger;
}

/** Hands calls of lanes over to workers from now on. Does nothing without `REDIS_URL`: then tools of lanes run here. */
export async function openLanes(parts: LaneParts): Promise<Lanes | undefined> {
  const opened = await openLink(parts);
  if (opened === undefined) return undefined;
  const { Lanes } = await loadLanes();
  const { registry, book } = parts.app;
  const lanes = new Lanes({
    ...opened,
    describe: (callId) => {
      const live = book.get(callId);
      return live && { live, about: book.handoverOf(live), isClaimed: live.claim === "open" };
    },
    taken: (callId) => {
      const live = book.get(callId);
      if (live !== undefined) Object.assign(live, { claim: "taken", isLeft: true });
    },
    handed: (callId, lane) => {
      const live = book.get(callId);
      if (live !== undefined) live.lane = lane;
    },
    ended: (callId, isRecorded) => {
      const live = book.get(callId);
      if (live !== undefined) live.isRecorded = isRecorded;
    },
  });
  registry.dispatchTo(handOver(lanes));
  return lanes;
}

/** Performs calls of lanes in this process. Rejects without `REDIS_URL`. */
export async function openLaneWorker(
  parts: LaneParts,
  { lanes, concurrency }: Pick<LaneWorkerOptions, "lanes" | "concurrency">,
): Promise<LaneWorker> {
  const opened = await openLink(parts);
  if (opened === undefined)
    throw new Error(
      "A worker takes its calls from Redis. Set REDIS_URL to the same address as for the servers, such as redis://127.0.0.1:6379.",
    );
  const { LaneWorker } = await loadLanes();
  const { book } = parts.app;
  const worker = new LaneWorker({
    ...opened,
    lanes,
    concurrency,
    // What a server says of its own call.
    enter: ({ call, lane, about }) => book.enterAdmitted(call, lane, about as CallHandover),
  });
  return worker;
}

type Common = Pick<LanesOptions, "link" | "config" | "registry" | "seal" | "unseal" | "logger"> &
  Pick<Store, "calls">;

async function openLink({ app, store, values, logger }: LaneParts): Promise<Common | undefined> {
  const url = process.env.REDIS_URL;
  if (url === undefined || url === "") return undefined;
  const { LaneLink } = await loadLanes();
  const { keyId, seal, unseal } = await values.secrets.sealing("lanes");
  const { registry, config } = app;
  const { calls } = store;
  const { prefix = "toolrack" } = config.workers ?? {};
  const link = await LaneLink.open({
    ...{ url, seal, unseal, lanes: calls.lanes, logger },
    // A process with another key could not read the calls of this rack, so it must not take them.
    prefix: `${prefix}-${keyId}`,
  });
  const lanes: LanesConfig = config.workers?.lanes ?? {};
  return { link, config: lanes, registry, calls, seal, unseal, logger };
}
