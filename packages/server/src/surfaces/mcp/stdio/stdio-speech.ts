import {
  CLIENT_CAPABILITIES_META_KEY,
  isJSONRPCNotification,
  isJSONRPCRequest,
  PROTOCOL_VERSION_META_KEY,
  ProtocolErrorCode,
  SUPPORTED_PROTOCOL_VERSIONS,
  UnsupportedProtocolVersionError,
} from "@modelcontextprotocol/server";
import { isRecord } from "../../../json/is-record.ts";
import type { Era } from "../hot/hot-path.ts";
import { modernVersion } from "../hot/hot-request.ts";

/** What is to become of a message: it goes on, is answered with an error, or is passed over. */
export type Verdict =
  | { readonly kind: "pass" }
  | { readonly kind: "refuse"; readonly id: string | number; readonly answer: object }
  | { readonly kind: "drop" };

const pass: Verdict = { kind: "pass" };
const drop: Verdict = { kind: "drop" };

/**
 * Which version of the protocol a connection speaks, by what its client has said so far. The SDK settles it by the first
 * message after `server/discover`, whatever that is, and then gives requests of the other version to a server that
 * cannot ask their client anything. So what would settle it by mistake, and what comes in the other version, is kept
 * from it.
 */
export class StdioSpeech {
  #era: Era | "asking" | undefined;

  isSettled(era: Era): boolean {
    return this.#era === era;
  }

  hear(message: object): Verdict {
    // What is no message settles nothing, and answers are of no version.
    if (this.#era === "modern" || !(isJSONRPCRequest(message) || isJSONRPCNotification(message))) return pass;
    const { method, params } = message;
    const id = isJSONRPCRequest(message) ? message.id : undefined;
    const meta: unknown = params?._meta;
    const version = isRecord(meta) ? meta[PROTOCOL_VERSION_META_KEY] : undefined;
    if (this.#era === "legacy") {
      return version !== modernVersion || method === "server/discover" ? pass : refuse(id, otherVersion);
    }
    if (version === undefined) {
      if (this.#era === "asking" && method !== "initialize") return refuse(id, noEnvelope);
      this.#era = "legacy";
    } else if (version === modernVersion && isRecord(meta) && isRecord(meta[CLIENT_CAPABILITIES_META_KEY])) {
      this.#settle(method, id);
    }
    return pass;
  }

  #settle(method: string, id: unknown): void {
    if (method === "server/discover") this.#era = "asking";
    // A notification settles nothing for who has asked before.
    else if (id !== undefined || this.#era === undefined) this.#era = "modern";
  }
}

const { code, message, data } = new UnsupportedProtocolVersionError(
  {
    supported: SUPPORTED_PROTOCOL_VERSIONS.filter((version) => version !== modernVersion),
    requested: modernVersion,
  },
  "This connection began with an older version of the protocol, and stays with it.",
);
const otherVersion = { code, message, data };

const noEnvelope = {
  code: ProtocolErrorCode.InvalidParams,
  message: `A request needs the _meta of ${modernVersion}, with which this connection began. Older versions begin with initialize.`,
};

function refuse(id: string | number | undefined, error: object): Verdict {
  return id === undefined ? drop : { kind: "refuse", id, answer: { jsonrpc: "2.0", id, error } };
}
