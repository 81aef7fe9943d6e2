import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  LOG_LEVEL_META_KEY,
  PROTOCOL_VERSION_META_KEY,
} from "@modelcontextprotocol/client";
import type { CallClient } from "@toolrack/core";
import { isRecord } from "../../../json/is-record.ts";
import { capabilitiesOf } from "./ask-caller.ts";
import type { Message } from "./json-rpc.ts";
import type { LaneRequest } from "./request-lane.ts";
import { TASKS_EXTENSION } from "./task-runs.ts";

export interface EnvelopeOptions {
  /** The version, when the server speaks the stateless protocol; everything is then said with every request. */
  readonly modern: string | undefined;
  readonly clientInfo: object;
  /** The server can work on calls as tasks. */
  readonly hasTasks: boolean;
}

/** What is said with every message, beside what it is about. */
export class Envelope {
  readonly #options: EnvelopeOptions;

  constructor({ modern, clientInfo, hasTasks }: EnvelopeOptions) {
    this.#options = { modern, clientInfo, hasTasks };
  }

  /** The parameters of a request as they are sent under this id. */
  around(request: LaneRequest, params: Message, id: number): Message {
    const { modern } = this.#options;
    const hears = request.onProgress !== undefined;
    if (modern === undefined && !hears) return params;
    if (modern === undefined && params._meta === undefined)
      return { ...params, _meta: { progressToken: id } };
    return {
      ...params,
      _meta: {
        ...(isRecord(params._meta) ? params._meta : {}),
        ...(hears ? { progressToken: id } : {}),
        ...(modern === undefined ? {} : this.#stateless(request.client, hearsLog(request))),
      },
    };
  }

  /** What the parameters of a notification have to have. */
  get ofNotice(): Message {
    return this.#options.modern === undefined ? {} : { _meta: this.#stateless(undefined, false) };
  }

  /** What the stateless protocol wants said with every message. */
  #stateless(client: CallClient | undefined, isHeard: boolean): object {
    const { modern, clientInfo, hasTasks } = this.#options;
    const capabilities = capabilitiesOf(client);
    return {
      [PROTOCOL_VERSION_META_KEY]: modern,
      [CLIENT_INFO_META_KEY]: clientInfo,
      [CLIENT_CAPABILITIES_META_KEY]: hasTasks ? { ...capabilities, extensions } : capabilities,
      // Without it a server says nothing, and then whoever listens hears nothing.
      ...(isHeard ? { [LOG_LEVEL_META_KEY]: levelFor(client) } : {}),
    };
  }
}

const extensions = Object.freeze({ [TASKS_EXTENSION]: {} });

function hearsLog({ client, onLog }: LaneRequest): boolean {
  return client !== undefined || onLog !== undefined;
}

/**
 * From which level on the server is to say what it logs. The record of a call and the server's own log begin at `info`,
 * also when the caller wants less: what is too little for a caller is kept from it where it is told.
 */
function levelFor(client: CallClient | undefined): "debug" | "info" {
  return client?.logLevel === "debug" ? "debug" : "info";
}
