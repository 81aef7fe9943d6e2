import {
  fromJsonSchema,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type Server,
} from "@modelcontextprotocol/server";
import type { Grant } from "../../access/index.ts";
import { MissingPromptArguments } from "../../files/index.ts";
import { abilitiesOf, carry, clientNameOf, comeBack, type Leg, wantsOf } from "./carry.ts";
import { mostWatched } from "./changes.ts";
import { currentExchange, Exchange } from "./exchange.ts";
import { listCache, pageOf, type Viewer } from "./lists.ts";
import { bindingOf } from "./messages.ts";
import type { McpParts, RackServer, ServerPlace } from "./surface.ts";
import { readCallResult, resultTemplate } from "./tools.ts";

/** How long a read may be kept: not at all, since what is behind it may change at any time. */
const readCache = { ttlMs: 0, cacheScope: "private" } as const;

/** Prompts, resources and completion, from whatever sources there are. */
export function serveOfferings(
  server: RackServer,
  parts: McpParts,
  viewer: Viewer,
  place: ServerPlace,
): void {
  const { offerings } = parts;
  server.setRequestHandler("prompts/list", async ({ params }, { mcpReq }) => {
    const prompts = await offerings.prompts(viewer.reader(mcpReq.signal));
    return paged("prompts", prompts, ({ name }) => name, params?.cursor);
  });
  server.setRequestHandler("resources/list", async ({ params }, { mcpReq }) => {
    const resources = await offerings.resources(viewer.reader(mcpReq.signal));
    return paged("resources", resources, ({ uri }) => uri, params?.cursor);
  });
  server.setRequestHandler("resources/templates/list", async ({ params }, { mcpReq }) => {
    const templates = await offerings.resourceTemplates(viewer.reader(mcpReq.signal));
    return paged(
      "resourceTemplates",
      [...templates, resultTemplate],
      ({ uriTemplate }) => uriTemplate,
      params?.cursor,
    );
  });
  server.setRequestHandler("prompts/get", ({ params }, context) => {
    const leg: Leg = { server, context, ...place };
    return converse(
      leg,
      parts,
      viewer,
      { subject: params.name, input: params.arguments },
      async (client, signal) => {
        const found = await offerings.getPrompt(
          params.name,
          params.arguments ?? {},
          viewer.reader(signal, client),
        );
        if (found === undefined)
          throw invalid(`There is no prompt "${params.name}". prompts/list has those that there are.`);
        return found;
      },
    );
  });
  server.setRequestHandler("resources/read", ({ params: { uri } }, context) => {
    const leg: Leg = { server, context, ...place };
    return converse(leg, parts, viewer, { subject: uri }, async (client, signal) => {
      const found =
        (await readCallResult(parts, viewer, uri)) ??
        (await offerings.readResource(uri, viewer.reader(signal, client)));
      if (found === undefined) throw new ResourceNotFoundError(uri);
      return { ...found, ...(place.era === "modern" ? readCache : {}) };
    });
  });
  server.setRequestHandler("completion/complete", async ({ params }, { mcpReq }) => {
    const { ref, argument, context } = params;
    const request = { ref, argument, others: context?.arguments ?? {} };
    const found = await offerings.complete(request, viewer.reader(mcpReq.signal));
    if (found === undefined) throw invalid("There is no such prompt or resource template to complete.");
    return { completion: { ...found, values: [...found.values] } };
  });
  if (place.era === "legacy" && place.canAsk) serveSubscriptions(server, parts, viewer);
}

/** In the older versions a session subscribes, and is told on its own stream. */
function serveSubscriptions(server: Server, { offerings }: McpParts, viewer: Viewer): void {
  const watched = new Map<string, () => void>();
  server.setRequestHandler("resources/subscribe", async ({ params: { uri } }, { mcpReq }) => {
    if (watched.has(uri)) return {};
    if (watched.size >= mostWatched) {
      const advice = "Unsubscribe from one that is no longer needed.";
      throw invalid(`This session watches ${mostWatched} resources, which is as many as it may. ${advice}`);
    }
    // Taken before it is waited for, so that many at once do not get past the limit.
    const pending = () => {};
    watched.set(uri, pending);
    let stop: (() => void) | undefined;
    try {
      stop = await offerings.watchResource(uri, viewer.reader(mcpReq.signal));
    } finally {
      if (stop === undefined && watched.get(uri) === pending) watched.delete(uri);
    }
    if (stop === undefined) throw new ResourceNotFoundError(uri);
    // Meanwhile it may have unsubscribed, and perhaps subscribed again.
    if (watched.get(uri) === pending) watched.set(uri, stop);
    else stop();
    return {};
  });
  server.setRequestHandler("resources/unsubscribe", ({ params: { uri } }) => {
    watched.get(uri)?.();
    watched.delete(uri);
    return {};
  });
  const unsubscribe = offerings.subscribe((change) => {
    if (change.kind !== "resource" || !watched.has(change.uri)) return;
    void server.sendResourceUpdated({ uri: change.uri }).catch(() => {});
  });
  server.onclose = () => {
    unsubscribe();
    for (const stop of watched.values()) stop();
    watched.clear();
  };
}

/** A prompt or resource, by its name or address, and the arguments for it. */
interface Wanted {
  readonly subject: string;
  readonly input?: Readonly<Record<string, string>> | undefined;
}

/** Work that may ask the client, and so may take several of its requests. */
async function converse<Result extends object>(
  leg: Leg,
  parts: McpParts,
  viewer: Viewer,
  wanted: Wanted,
  work: (client: Exchange<Result>, signal: AbortSignal) => Promise<Result>,
) {
  const exchange =
    comeBack<Result>(wanted.subject, wanted.input, leg) ?? begin(leg, parts.approverOf(viewer), wanted, work);
  try {
    // The same shapes as those of the SDK, which are written with mutable members.
    return (await carry(exchange, leg, parts.held, bindingOf(viewer, leg.context))) as never;
  } catch (thrown) {
    throw thrown instanceof MissingPromptArguments ? invalid(thrown.message) : thrown;
  }
}

function begin<Result>(
  leg: Leg,
  approver: Grant | undefined,
  { subject, input }: Wanted,
  work: (client: Exchange<Result>, signal: AbortSignal) => Promise<Result>,
): Exchange<Result> {
  const options = {
    subject,
    abilities: abilitiesOf(leg),
    approver,
    clientName: clientNameOf(leg),
    answers: leg.context.mcpReq.inputResponses ?? {},
    wants: wantsOf(leg),
  };
  const exchange = new Exchange<Result>(options, input);
  return exchange.start((signal) => currentExchange.run(exchange, () => work(exchange, signal)));
}

function paged<Item>(
  member: string,
  all: readonly Item[],
  keyOf: (item: Item) => string,
  cursor: string | undefined,
) {
  const sorted = all.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
  const { items, nextCursor } = pageOf(member, sorted, keyOf, cursor);
  // The same shapes as those of the SDK, which are written with mutable members.
  return { [member]: items, ...(nextCursor === undefined ? {} : { nextCursor }) } as never;
}

function invalid(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}

const listParams = fromJsonSchema<{ cursor?: string }>({
  type: "object",
  properties: { cursor: { type: "string" } },
});
const uriParams = fromJsonSchema<{ uri: string }>({
  type: "object",
  properties: { uri: { type: "string" } },
  required: ["uri"],
});

/** The extension by which clients find skills and their files. The files themselves are resources. */
export function serveSkills(server: Server, { offerings }: McpParts, viewer: Viewer): void {
  server.setRequestHandler("skills/list", { params: listParams }, async ({ cursor }, { mcpReq }) => {
    const skills = await offerings.skills(viewer.reader(mcpReq.signal));
    const sorted = skills.toSorted((one, other) => (one.uri < other.uri ? -1 : 1));
    const { items, nextCursor } = pageOf("skills", sorted, ({ uri }) => uri, cursor);
    return { skills: items, ...(nextCursor === undefined ? {} : { nextCursor }), ...listCache };
  });
  server.setRequestHandler("skills/get", { params: uriParams }, async ({ uri }, { mcpReq }) => {
    const skill = await offerings.getSkill(uri, viewer.reader(mcpReq.signal));
    if (skill === undefined)
      throw unknown(`There is no skill at ${uri}. skills/list has those that there are.`);
    return { skill, ...listCache };
  });
  server.setRequestHandler("resources/directory/read", { params: uriParams }, async ({ uri }, { mcpReq }) => {
    const directory = await offerings.readDirectory(uri, viewer.reader(mcpReq.signal));
    if (directory === undefined) throw unknown(`There is no folder at ${uri}.`);
    return { ...directory, ...listCache };
  });
}

function unknown(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}
