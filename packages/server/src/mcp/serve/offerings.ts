import type { OfferingReader, Offerings, ResourceAnswer } from "../../calls/index.ts";
import { invalidParams, listCacheTime, paramError, resourceNotFound, resultUri } from "./answers.ts";
import { ClientDialog, currentDialog, relayDialog } from "./dialog.ts";
import type { McpServing } from "./mcp-services.ts";
import type { ClientRequest } from "./session.ts";
import { pageOf } from "./tool-lists.ts";

/** How long clients of both eras may cache a skill. */
const skillCache = { ttlMs: listCacheTime, cacheScope: "private" };

/** The template of the resources that hold the whole text of a result which was truncated for the model. */
const resultTemplate = {
  uriTemplate: "toolrack://calls/{callId}/result",
  name: "call-result",
  title: "Whole result of a call",
  description:
    "The whole text of a result that was too long to be answered with. Each part names the next one in `_meta`.",
  mimeType: "text/plain",
};

/** The methods for prompts, resources, completion and skills of all sources. */
export const offeringMethods = {
  "prompts/list": listing(
    "prompts",
    (offerings, reader) => offerings.prompts(reader),
    ({ name }) => name,
  ),
  "resources/list": listing(
    "resources",
    (offerings, reader) => offerings.resources(reader),
    ({ uri }) => uri,
  ),
  "resources/templates/list": listing(
    "resourceTemplates",
    async (offerings, reader) => [...(await offerings.resourceTemplates(reader)), resultTemplate],
    ({ uriTemplate }) => uriTemplate,
  ),
  "skills/list": listing(
    "skills",
    (offerings, reader) => offerings.skills(reader),
    ({ uri }) => uri,
    skillCache,
  ),
  async "prompts/get"(serving: McpServing, request: ClientRequest): Promise<void> {
    const { name, arguments: input } = await parse(request, (core) => core.GetPromptRequestParamsSchema);
    runDialog(serving, request, name, input, async (reader) => {
      const found = await serving.offerings.getPrompt(name, input ?? {}, reader);
      if (found !== undefined) return found;
      throw invalidParams(`There is no prompt "${name}". prompts/list has those that there are.`);
    });
  },
  async "resources/read"(serving: McpServing, request: ClientRequest): Promise<void> {
    const uri = await uriOf(request);
    runDialog(serving, request, uri, undefined, async (reader) => {
      const result = await readCallResult(serving, request, uri);
      const found = result ?? (await serving.offerings.readResource(uri, reader));
      if (found === undefined) throw resourceNotFound(uri);
      return found;
    });
  },
  async "completion/complete"({ offerings }: McpServing, request: ClientRequest): Promise<object> {
    const params = await parse(request, (core) => core.CompleteRequestParamsSchema);
    const { ref, argument, context } = params;
    const wanted = { ref, argument, others: context?.arguments ?? {} };
    const completion = await offerings.complete(wanted, readerOf(request));
    if (completion === undefined)
      throw invalidParams("There is no such prompt or resource template to complete.");
    return { completion };
  },
  async "skills/get"({ offerings }: McpServing, request: ClientRequest): Promise<object> {
    const uri = await uriOf(request);
    const skill = await offerings.getSkill(uri, readerOf(request));
    if (skill === undefined)
      throw invalidParams(`There is no skill at ${uri}. skills/list has those that there are.`);
    return { skill, ...skillCache };
  },
  async "resources/directory/read"({ offerings }: McpServing, request: ClientRequest): Promise<object> {
    const uri = await uriOf(request);
    const directory = await offerings.readDirectory(uri, readerOf(request));
    if (directory === undefined) throw invalidParams(`There is no folder at ${uri}.`);
    return { ...directory, ...skillCache };
  },
};

/** Makes the handler of a method that lists all items of a kind, sorted by `keyOf`, page by page. */
function listing<Item>(
  member: string,
  read: (offerings: Offerings, reader: OfferingReader) => Promise<readonly Item[]>,
  keyOf: (item: Item) => string,
  more: object = {},
) {
  return async ({ offerings }: McpServing, request: ClientRequest): Promise<object> => {
    const { cursor } = await parse(request, (core) => core.PaginatedRequestParamsSchema);
    const all = await read(offerings, readerOf(request));
    const sorted = all.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
    const { items, nextCursor } = pageOf(member, sorted, keyOf, cursor);
    return { [member]: items, ...(nextCursor === undefined ? {} : { nextCursor }), ...more };
  };
}

/** Runs work that may ask the client questions, so that it may have to repeat its request with answers. */
function runDialog<Found extends object>(
  { waitingDialogs }: McpServing,
  request: ClientRequest,
  subject: string,
  input: Readonly<Record<string, string>> | undefined,
  work: (reader: OfferingReader) => Promise<Found>,
) {
  if (request.isOver) return;
  if (request.params.requestState !== undefined) return waitingDialogs.resume(request, subject, input);
  const dialog = new ClientDialog<Found>(request, subject, input);
  const { caller, origin } = request;
  dialog.start((signal) => currentDialog.run(dialog, () => work(caller.reader(signal, origin, dialog))));
  relayDialog(waitingDialogs, request, dialog, (answered, found) => answered.result(found));
}

/** The caller's rights to offerings, with a signal that aborts when the request is cancelled. */
export function readerOf(request: ClientRequest): OfferingReader {
  const gone = new AbortController();
  request.onCancel = (reason) => gone.abort(reason);
  return request.caller.reader(gone.signal, request.origin);
}

type Core = typeof import("@modelcontextprotocol/core");

interface ParamsSchema<Params> {
  safeParse(value: unknown):
    | { readonly success: true; readonly data: Params }
    | {
        readonly success: false;
        readonly error: {
          readonly issues: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[];
        };
      };
}

/** Parses the parameters with a schema of the SDK. The SDK is loaded by the first request that needs it. */
export async function parse<Params>(
  { method, params }: ClientRequest,
  schemaOf: (core: Core) => ParamsSchema<Params>,
): Promise<Params> {
  const parsed = schemaOf(await import("@modelcontextprotocol/core")).safeParse(params);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) =>
    path.length === 0 ? message : `${path.join(".")}: ${message}`,
  );
  throw paramError(method, "", problems.join("; "));
}

export async function uriOf(request: ClientRequest): Promise<string> {
  const { uri } = await parse(request, (core) => core.ResourceRequestParamsSchema);
  return uri;
}

/** How many characters of a result one `resources/read` returns. */
const PAGE = 100_000;

/** A part of a result's text, for the caller who made the call and for admins. Undefined when this caller has no such result. */
async function readCallResult(
  { store: { calls }, recorder }: McpServing,
  { caller: { grant } }: ClientRequest,
  uri: string,
): Promise<ResourceAnswer | undefined> {
  const found = /^toolrack:\/\/calls\/([^/?#%]+)\/result(?:\?offset=(\d{1,15}))?$/.exec(uri);
  if (found === null) return undefined;
  const callId = found[1]!;
  await recorder.flush();
  const call = await calls.get(callId);
  // Clients get links only for calls that they made directly.
  const isOwn = call?.parentCallId === undefined && call?.caller === grant.caller;
  if (call === undefined || !(grant.admin || isOwn)) return undefined;
  let offset = Number(found[2] ?? 0);
  let page = await calls.readResult(callId, offset, PAGE);
  // A page does not split a surrogate pair: an offset inside a pair is moved to its beginning.
  if (page !== undefined && offset > 0 && /^[\uDC00-\uDFFF]/.test(page.text)) {
    offset--;
    page = await calls.readResult(callId, offset, PAGE);
  }
  if (page === undefined) return undefined;
  const { total } = page;
  // A surrogate pair that the end of the page would split goes to the next page.
  const isCut = offset + page.text.length < total && /[\uD800-\uDBFF]$/.test(page.text);
  const text = isCut ? page.text.slice(0, -1) : page.text;
  const next = offset + text.length;
  const _meta = {
    "toolrack/offset": offset,
    "toolrack/total": total,
    ...(next < total && text !== "" ? { "toolrack/next": resultUri(callId, next) } : {}),
  };
  return { contents: [{ uri, mimeType: "text/plain", text, _meta }] };
}
