import type { Grant } from "../../access/index.ts";
import type { OfferingReader } from "../../calls/index.ts";
import { reasonOf } from "../../helpers/index.ts";
import type { HttpServices } from "../services.ts";
import { callerGone, HttpError, type Route, type RouteRequest, routesFor, s } from "../wire/index.ts";

const CONTENT = "GET /api/resources/content";

/** The prompts and resources of the rack, as MCP clients are given them. */
export function offeringRoutes({ offerings }: HttpServices): Route[] {
  const route = routesFor("offerings", "token");
  return [
    route("GET /api/prompts", "listPrompts", "The prompts that the token may use", {
      answer: ["The prompts by name.", s.items(s.ref("Prompt"))],
      handle: (request) =>
        reading(request, async (reader) => {
          const items = await offerings.prompts(reader);
          return { items: items.toSorted((one, other) => (one.name < other.name ? -1 : 1)) };
        }),
    }),
    route("POST /api/prompts/{name}", "getPrompt", "The messages of a prompt with these arguments", {
      params: { name: s.text({ minLength: 1 }) },
      optionalBody: s.closed({ "arguments?": s.map(s.text()) }),
      answer: ["The messages.", s.ref("PromptAnswer")],
      errors: ["prompt_not_found", "offering_failed"],
      handle: (request) => {
        const { params, body } = request;
        return reading(request, async (reader) => {
          const found = await offerings.getPrompt(params.name, body.arguments ?? {}, reader);
          if (found !== undefined) return found;
          const message = `There is no prompt "${params.name}". GET /api/prompts lists them.`;
          throw new HttpError("prompt_not_found", message, { details: { name: params.name } });
        });
      },
    }),
    route("GET /api/resources", "listResources", "The resources and templates that the token may read", {
      answer: ["Resources first, then templates.", s.items(s.ref("Resource"))],
      handle: (request) =>
        reading(request, async (reader) => ({
          items: [...(await offerings.resources(reader)), ...(await offerings.resourceTemplates(reader))],
        })),
    }),
    route(CONTENT, "readResource", "What a resource holds", {
      query: { uri: s.text("Its URI. Required.", { minLength: 1, maxLength: 4_000 }) },
      answer: ["Its parts.", s.object({ contents: s.list(s.ref("ResourceContent")) })],
      errors: ["resource_not_found", "offering_failed"],
      handle: (request) => {
        const { uri = "" } = request.query;
        return reading(request, async (reader) => {
          const found = await offerings.readResource(uri, reader);
          if (found !== undefined) return found;
          const message = `There is no resource at "${uri}". GET /api/resources lists them.`;
          throw new HttpError("resource_not_found", message, { details: { uri } });
        });
      },
    }),
  ];
}

/** Does the work for the token's reader. What a prompt or resource throws becomes an answer that says so. */
async function reading<Answer>(
  { grant, incoming, outgoing }: RouteRequest,
  work: (reader: OfferingReader) => Promise<Answer>,
): Promise<Answer> {
  const gone = callerGone(incoming, outgoing);
  try {
    return await work(readerFor(grant, gone.signal, incoming.headers));
  } catch (thrown) {
    if (thrown instanceof HttpError) throw thrown;
    throw new HttpError("offering_failed", reasonOf(thrown));
  } finally {
    gone.release();
  }
}

function readerFor(
  grant: Grant,
  signal: AbortSignal,
  headers: RouteRequest["incoming"]["headers"],
): OfferingReader {
  const { caller, admin: isAdmin, id: owner } = grant;
  const origin = { caller, isAdmin, owner, headers, sessionID: "", connection: undefined };
  return { caller, origin, mayUse: (item) => grant.mayUse(item), signal };
}
