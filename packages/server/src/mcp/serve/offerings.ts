import { listCacheTime } from "../wire/index.ts";
import { readCallResult, resultTemplate } from "./call-answer.ts";
import { ClientDialog, currentDialog } from "./dialog.ts";
import { dialogOptions, relayDialog, resume } from "./dialog-relay.ts";
import { invalidParams, paramError, resourceNotFound } from "./errors.ts";
import { pageOf } from "./lists.ts";
import type { McpServing } from "./serving.ts";
import type { ClientRequest } from "./session.ts";

type Result = Readonly<Record<string, unknown>>;

/** How long clients of both eras may keep a skill. */
const skillCache = { ttlMs: listCacheTime, cacheScope: "private" };

/** Prompts, resources, completion and skills of all sources. */
export const offeringMethods = {
  async "prompts/list"({ offerings }: McpServing, request: ClientRequest): Promise<Result> {
    const cursor = await cursorOf(request);
    return paged("prompts", await offerings.prompts(readerOf(request)), ({ name }) => name, cursor);
  },
  async "resources/list"({ offerings }: McpServing, request: ClientRequest): Promise<Result> {
    const cursor = await cursorOf(request);
    return paged("resources", await offerings.resources(readerOf(request)), ({ uri }) => uri, cursor);
  },
  async "resources/templates/list"({ offerings }: McpServing, request: ClientRequest): Promise<Result> {
    const cursor = await cursorOf(request);
    const all = [...(await offerings.resourceTemplates(readerOf(request))), resultTemplate];
    return paged("resourceTemplates", all, ({ uriTemplate }) => uriTemplate, cursor);
  },
  async "prompts/get"(serving: McpServing, request: ClientRequest): Promise<void> {
    const { name, arguments: input } = await parse(request, (core) => core.GetPromptRequestParamsSchema);
    runDialog(serving, request, name, input, async (client, signal) => {
      const reader = request.caller.reader(signal, client);
      const found = await serving.offerings.getPrompt(name, input ?? {}, reader);
      if (found === undefined)
        throw invalidParams(`There is no prompt "${name}". prompts/list has those that there are.`);
      return found;
    });
  },
  async "resources/read"(serving: McpServing, request: ClientRequest): Promise<void> {
    const uri = await uriOf(request);
    runDialog(serving, request, uri, undefined, async (client, signal) => {
      const found =
        (await readCallResult(serving, request.caller, uri)) ??
        (await serving.offerings.readResource(uri, request.caller.reader(signal, client)));
      if (found === undefined) throw resourceNotFound(uri);
      return found;
    });
  },
  async "completion/complete"({ offerings }: McpServing, request: ClientRequest): Promise<Result> {
    const params = await parse(request, (core) => core.CompleteRequestParamsSchema);
    const { ref, argument, context } = params;
    const wanted = { ref, argument, others: context?.arguments ?? {} };
    const completion = await offerings.complete(wanted, readerOf(request));
    if (completion === undefined)
      throw invalidParams("There is no such prompt or resource template to complete.");
    return { completion };
  },
  async "skills/list"({ offerings }: McpServing, request: ClientRequest): Promise<Result> {
    const cursor = await cursorOf(request);
    const skills = await offerings.skills(readerOf(request));
    return { ...paged("skills", skills, ({ uri }) => uri, cursor), ...skillCache };
  },
  async "skills/get"({ offerings }: McpServing, request: ClientRequest): Promise<Result> {
    const uri = await uriOf(request);
    const skill = await offerings.getSkill(uri, readerOf(request));
    if (skill === undefined)
      throw invalidParams(`There is no skill at ${uri}. skills/list has those that there are.`);
    return { skill, ...skillCache };
  },
  async "resources/directory/read"({ offerings }: McpServing, request: ClientRequest): Promise<Result> {
    const uri = await uriOf(request);
    const directory = await offerings.readDirectory(uri, readerOf(request));
    if (directory === undefined) throw invalidParams(`There is no folder at ${uri}.`);
    return { ...directory, ...skillCache };
  },
};

/** Runs work that may ask the client questions, and so may take several of its requests. */
function runDialog<Found extends object>(
  serving: McpServing,
  request: ClientRequest,
  subject: string,
  input: Readonly<Record<string, string>> | undefined,
  work: (client: ClientDialog<Found>, signal: AbortSignal) => Promise<Found>,
) {
  if (request.isOver) return;
  if (request.params.requestState !== undefined) return resume(serving, request, subject, input);
  const dialog = new ClientDialog<Found>(dialogOptions(serving, request, subject), input);
  dialog.start((signal) => currentDialog.run(dialog, () => work(dialog, signal)));
  relayDialog(serving, request, dialog, (answered, found) => answered.result(found));
}

/** The caller's reader. It aborts when the request is cancelled. */
export function readerOf(request: ClientRequest) {
  const gone = new AbortController();
  request.onCancel = (reason) => gone.abort(reason);
  return request.caller.reader(gone.signal);
}

function paged<Item>(
  member: string,
  all: readonly Item[],
  keyOf: (item: Item) => string,
  cursor: string | undefined,
): Result {
  const sorted = all.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
  const { items, nextCursor } = pageOf(member, sorted, keyOf, cursor);
  return { [member]: items, ...(nextCursor === undefined ? {} : { nextCursor }) };
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

async function cursorOf(request: ClientRequest): Promise<string | undefined> {
  const params = await parse(request, (core) => core.PaginatedRequestParamsSchema);
  return params.cursor;
}

export async function uriOf(request: ClientRequest): Promise<string> {
  const { uri } = await parse(request, (core) => core.ResourceRequestParamsSchema);
  return uri;
}
