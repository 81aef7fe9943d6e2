import type { EndedCall } from "../../../calls/call-desk.ts";
import type { Exchange } from "../exchange.ts";
import { declaredHeaders } from "../http/param-headers.ts";
import type { McpParts } from "../mcp-parts.ts";
import { pageSize, startOfPage } from "../page-of.ts";
import type { SdkFaces } from "../sdk-faces.ts";
import { startToolCall } from "../start-tool-call.ts";
import { taskSupportOf } from "../tasks/task-support.ts";
import type { Viewer } from "../viewer.ts";
import type { HotCall, HotList } from "./hot-request.ts";
import { plainAnswer } from "./hot-result.ts";

export type Era = "legacy" | "modern";

/** How a call went on this path: answered, or begun and to be gone on with by the SDK. */
export type HotOutcome =
  | { readonly kind: "answered"; readonly text: string }
  | { readonly kind: "begun"; readonly exchange: Exchange<EndedCall> };

/**
 * The short way for `tools/call` and `tools/list`: one look at the message, one call, one text. It begins only what it
 * understands whole, and hands a call that turns out to need more, such as a question to the client, on to the SDK
 * while it runs. So both ways answer the same.
 */
export class HotPath {
  readonly #parts: McpParts;
  readonly #faces: SdkFaces;
  readonly #endings: Readonly<Record<Era, string>>;

  constructor(parts: McpParts, faces: SdkFaces) {
    this.#parts = parts;
    this.#faces = faces;
    const meta = JSON.stringify({ "io.modelcontextprotocol/serverInfo": parts.serverInfo });
    this.#endings = { legacy: "", modern: `,"resultType":"complete","_meta":${meta}` };
  }

  /** Begins a call, unless there is something about its tool that only the SDK's way has. */
  begin(
    { params, envelope }: HotCall,
    viewer: Viewer,
    options: ConstructorParameters<typeof Exchange>[0],
  ): Exchange<EndedCall> | undefined {
    const info = this.#parts.registry.get(params.name);
    if (info === undefined || !viewer.sees(info)) return undefined;
    const support = taskSupportOf(this.#parts, viewer, params)?.support;
    // In the older versions there are no tasks: what is not for such a client is refused on the SDK's way.
    if (support === "required" || (support !== undefined && envelope !== undefined)) return undefined;
    if (envelope !== undefined && declaredHeaders(info).length > 0) return undefined;
    return startToolCall(this.#parts, viewer, params, options);
  }

  /** To be asked once the exchange has stirred: whether the call has ended with a plain result, or needs more than that. */
  outcome(exchange: Exchange<EndedCall>, id: string | number, era: Era, viewer: Viewer): HotOutcome {
    const ended = exchange.ended;
    if (ended === undefined || !this.#isPlainFor(exchange.subject, ended, era, viewer)) {
      return { kind: "begun", exchange };
    }
    const text = plainAnswer(ended, id, this.#endings[era]);
    return text === undefined ? { kind: "begun", exchange } : { kind: "answered", text };
  }

  /** The bytes of a list without what is around them: the same for every request, as long as the list is. */
  async list({ cursor }: HotList, era: Era, viewer: Viewer): Promise<Buffer | undefined> {
    const { made, tools } = this.#parts.lists.of(viewer);
    const start = startOfPage("tools", tools, ({ name }) => name, cursor);
    // Cursors come from outside and may begin anywhere; only the pages that we hand out ourselves are kept.
    if (start === undefined || start % pageSize > 0) return this.#faces.listBytes(era, cursor, viewer);
    const key = `${era} ${start}`;
    const known = made.get(key);
    if (known !== undefined) return known;
    const bytes = await this.#faces.listBytes(era, cursor, viewer);
    if (bytes !== undefined) made.set(key, bytes);
    return bytes;
  }

  /** In the older versions a value that is not what they allow is wrapped, by what the list says of the tool. */
  #isPlainFor(name: string, { result }: EndedCall, era: Era, viewer: Viewer): boolean {
    if (era === "modern" || result.structured === undefined) return true;
    const schema = this.#parts.lists.of(viewer).byName.get(name)?.outputSchema;
    return schema === undefined || schema.type === "object";
  }
}
