import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { type CompiledSchema, compileSchema } from "@toolrack/core";
import { type Grant, SecretError, SettingError } from "../access/index.ts";
import { ForbiddenAnswer, UnfitAnswer } from "../calls/index.ts";
import { SkillInputError, SkillMissingError, SkillReadOnlyError } from "../skills/index.ts";
import { BlobMissingError, InvalidCursorError, McpServerError, PatternTooWideError } from "../store/index.ts";
import { settleTarget } from "./request-guard.ts";
import type { HttpServices } from "./services.ts";
import type { Mount, Route, RouteRequest } from "./wire/index.ts";
import {
  HttpError,
  json,
  jsonText,
  misplaced,
  Reply,
  readBody,
  readQuery,
  s,
  sendError,
  sendText,
  sent,
} from "./wire/index.ts";

interface RouterOptions {
  readonly routes: readonly Route[];
  readonly mounts: readonly Mount[];
  /** Returns true when it answered a request for a page of the console; false leaves the request to the API. */
  readonly pages: (incoming: IncomingMessage, outgoing: ServerResponse) => boolean;
}

/** A route. Its schemas are compiled at its first request. */
interface Entry {
  readonly route: Route;
  /** Names of the path's parameters. */
  readonly names: readonly string[];
  checks: Checks | undefined;
  /** The parameters that a request without a query has: the defaults of the schema. */
  emptyQuery: object | undefined;
}

interface Checks {
  readonly params: CompiledSchema;
  readonly query: CompiledSchema;
  readonly body: CompiledSchema;
}

/** A node in the tree of paths: its children, and the routes that end here. */
interface Branch {
  readonly fixed: Map<string, Branch>;
  /** The child for a path parameter. */
  any: Branch | undefined;
  /** Routes by method. */
  readonly entries: Map<string, Entry>;
}

type Server = Pick<HttpServices, "guard" | "metrics" | "logger" | "settings" | "skills" | "registry">;

/** Dispatches every request to a mount, a page of the console or a route of the API. */
export class Router {
  readonly #server: Server;
  readonly #options: RouterOptions;
  readonly #root = newBranch();

  constructor(server: Server, options: RouterOptions) {
    this.#server = server;
    this.#options = options;
    for (const route of options.routes) this.#add(route);
  }

  /**
   * Always answers the request, with an error if it fails. Never rejects. `upgraded`: the connection of a request for
   * another protocol, which is a mount's.
   */
  readonly answer = async (
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    upgraded?: Duplex,
  ): Promise<void> => {
    outgoing.on("error", () => {}); // The caller disconnected; `close` reports it.
    // The name of the request in metrics.
    let name = "(none)";
    let mount: Mount | undefined;
    try {
      settleTarget(incoming);
      const { guard } = this.#server;
      const { mounts, pages } = this.#options;
      const { url = "/", method = "GET" } = incoming;
      const end = url.indexOf("?");
      const path = end === -1 ? url : url.slice(0, end);
      const search = end === -1 ? "" : url.slice(end + 1);
      const params: string[] = [];
      const siblings = findBranch(this.#root, path.split("/"), 1, params)?.entries;
      if (siblings === undefined) {
        for (const candidate of mounts) {
          mount = candidate.owns(path, method) ? candidate : undefined;
          if (mount !== undefined) break;
        }
        if (mount !== undefined) name = path;
        else if (guard.knowsHost(incoming) && pages(incoming, outgoing)) return;
      }
      if (guard.check(incoming, outgoing)) return;
      const entry = siblings?.get(method === "HEAD" ? "GET" : method);
      if (entry !== undefined) name = entry.route.path;
      const wanted = mount ?? entry?.route;
      if (wanted === undefined) return await this.#refuse(path, [...(siblings?.values() ?? [])], incoming);
      let grant = nobody;
      if (wanted.access !== "open") {
        const isInQuery = entry?.route.tokenInQuery === true;
        // For a token that was seen before, `admit` returns no promise; awaiting would cost more than this
        // check.
        const admitted = guard.admit(incoming, isInQuery ? new URLSearchParams(search).get("token") : null);
        grant = admitted instanceof Promise ? await admitted : admitted;
      }
      const { loading } = this.#server.skills;
      if (loading !== undefined && this.#needsTools(entry?.route, params)) await loading;
      if (upgraded !== undefined && mount?.join !== undefined)
        mount.join(incoming, outgoing, grant, upgraded);
      else if (mount !== undefined) await mount.handle(incoming, outgoing, grant);
      else if (entry !== undefined) await this.#serve(entry, params, search, grant, incoming, outgoing);
    } catch (thrown) {
      const refusal = mount === undefined ? toHttpError(thrown) : withChallenge(thrown, mount, incoming);
      sendError(refusal, incoming, outgoing, this.#server, name);
    }
  };

  /** Whether a request must wait while tools of skills are still being put on the rack. */
  #needsTools(route: Route | undefined, [tool = ""]: readonly string[]): boolean {
    if (route === undefined) return true;
    const { access, tag, method } = route;
    const isRecord = tag === "calls" || tag === "events";
    return access !== "open" && !(isRecord && (method === "GET" || this.#server.registry.get(tool)));
  }

  async #serve(
    entry: Entry,
    values: readonly string[],
    search: string,
    grant: Grant,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
  ): Promise<void> {
    const { metrics, settings } = this.#server;
    const { route, names } = entry;
    if (route.access === "admin" && !grant.admin) {
      throw new HttpError("forbidden", "Only an admin's token may do this.");
    }
    route.admit?.(grant);
    entry.checks ??= compileChecks(route);
    const { checks } = entry;
    const named: Record<string, string> = {};
    for (const [at, name] of names.entries()) named[name] = values[at]!;
    const params = names.length === 0 ? named : await checked("path", checks.params, named);
    let query: unknown;
    if (search === "" && entry.emptyQuery !== undefined) query = { ...entry.emptyQuery };
    else query = await checked("query", checks.query, readQuery(search, route.query ?? {}));
    if (search === "") entry.emptyQuery ??= { ...(query as object) }; // A query's schema describes an object.
    let body: unknown;
    if (route.body !== undefined || route.optionalBody !== undefined) {
      const given = await readBody(incoming, settings.maxBody);
      if (given === undefined && route.body !== undefined) {
        const details = { in: "body", issues: [] };
        throw new HttpError("invalid_request", "This request needs a body.", { details });
      }
      body = await checked("body", checks.body, given ?? {});
    }
    // The request was checked against the route's schemas, so it has the route's own types.
    const handle = route.handle as (request: RouteRequest) => unknown;
    const answer = await handle({ params, query, body, grant, incoming, outgoing });
    metrics.countRequest(route.method, route.path, answer === sent ? outgoing.statusCode : 200);
    if (answer === sent) return;
    if (!(answer instanceof Reply)) return sendText(outgoing, 200, jsonText(answer), jsonHeaders);
    const { body: value, contentType, headers } = answer;
    const text = contentType === undefined ? jsonText(value) : String(value);
    sendText(outgoing, 200, text, { "Content-Type": contentType ?? json, ...headers });
  }

  /**
   * Refuses a request for which there is no route. A caller without a token is not shown which paths exist,
   * except open ones, and a caller who may use none of the routes around the path is told just that.
   */
  async #refuse(path: string, siblings: readonly Entry[], incoming: IncomingMessage): Promise<never> {
    if (!siblings.some(({ route }) => route.access === "open")) {
      const grant = await this.#server.guard.admit(incoming);
      const around = [...routesBelow(nearestBranch(this.#root, path.split("/").slice(1)))];
      if (around.every(({ admit }) => admit !== undefined)) for (const { admit } of around) admit?.(grant);
    }
    const methods = siblings.map(({ route }) => route.method).join(", ");
    if (methods === "") {
      throw new HttpError("not_found", `There is nothing at ${path}. GET /openapi.json lists what there is.`);
    }
    const message = `${siblings[0]!.route.path} takes ${methods}.`;
    throw new HttpError("method_not_allowed", message, { headers: { Allow: methods } });
  }

  #add(route: Route): void {
    let branch = this.#root;
    for (const segment of route.path.split("/").slice(1)) {
      if (segment.startsWith("{")) {
        branch.any ??= newBranch();
        branch = branch.any;
        continue;
      }
      const next = branch.fixed.get(segment) ?? newBranch();
      branch.fixed.set(segment, next);
      branch = next;
    }
    const names = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
    branch.entries.set(route.method, { route, names, checks: undefined, emptyQuery: undefined });
  }
}

const jsonHeaders = { "Content-Type": json };

/** A grant for nothing. Only open routes and mounts get it, and they do not read it. */
const nobody: Grant = {
  id: "",
  name: "",
  admin: false,
  caller: "",
  mayUse: () => false,
  mayUseExpert: () => false,
  mayApprove: () => false,
  isApprover: false,
  mayChat: false,
};

function newBranch(): Branch {
  return { fixed: new Map(), any: undefined, entries: new Map() };
}

/** Finds the branch of a path and collects its parameters. A literal segment wins over a parameter. */
function findBranch(
  branch: Branch,
  segments: readonly string[],
  at: number,
  params: string[],
): Branch | undefined {
  const written = segments[at];
  if (written === undefined) return branch.entries.size > 0 ? branch : undefined;
  const segment = written.includes("%") ? decoded(written) : written;
  const next = branch.fixed.get(segment);
  const found = next && findBranch(next, segments, at + 1, params);
  if (found !== undefined || branch.any === undefined || segment === "") return found;
  const known = params.push(segment);
  const below = findBranch(branch.any, segments, at + 1, params);
  if (below === undefined) params.length = known - 1;
  return below;
}

/**
 * For a path without a route: the last branch on the way that exists. The routes below it decide who may learn that
 * nothing is there.
 */
function nearestBranch(branch: Branch, segments: readonly string[]): Branch {
  const [segment = "", ...others] = segments;
  const next = branch.fixed.get(decoded(segment)) ?? branch.any;
  return next === undefined || segments.length === 0 ? branch : nearestBranch(next, others);
}

function* routesBelow({ fixed, any, entries }: Branch): Generator<Route> {
  for (const { route } of entries.values()) yield route;
  for (const branch of [...fixed.values(), ...(any ? [any] : [])]) yield* routesBelow(branch);
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Requests are checked with the same schemas that the API's description shows. */
function compileChecks({ params = {}, query = {}, body, optionalBody }: Route): Checks {
  return {
    params: compileSchema(s.closed(params)),
    query: compileSchema(s.closed(s.partial(query))),
    body: compileSchema(body ?? optionalBody ?? {}),
  };
}

async function checked(place: string, schema: CompiledSchema, value: unknown): Promise<unknown> {
  const outcome = await schema.validate(value, { strict: true });
  if (outcome.ok) return outcome.value;
  const { issues } = outcome;
  const reasons = issues
    .map(({ path, message }) => (path === "" ? message : `${path}: ${message}`))
    .join("; ");
  const message = `The ${place} of the request does not fit: ${reasons}`;
  throw new HttpError("invalid_request", message, { details: { in: place, issues } });
}

/** Adds the mount's challenge to the WWW-Authenticate header for a caller without a valid token. */
function withChallenge(thrown: unknown, mount: Mount, incoming: IncomingMessage): unknown {
  if (!(thrown instanceof HttpError) || thrown.code !== "unauthorized") return thrown;
  const challenge = mount.challenge?.(incoming);
  if (challenge === undefined) return thrown;
  const challenges = [thrown.headers["WWW-Authenticate"], challenge].filter((one) => one !== undefined);
  return new HttpError(thrown.code, thrown.message, {
    details: thrown.details,
    headers: { "WWW-Authenticate": challenges.join(", ") },
  });
}

const skillAdvice = {
  skill: "GET /api/skills lists them.",
  skill_tool: "GET /api/skills/{id} lists them.",
  expert: "GET /api/experts lists them.",
} as const;

/**
 * Translates the errors by which other parts of the server refuse a request into an `HttpError`. Returns any
 * other value unchanged.
 */
function toHttpError(thrown: unknown): unknown {
  if (!(thrown instanceof Error) || thrown instanceof HttpError) return thrown;
  const { message } = thrown;
  if (thrown instanceof SkillInputError) {
    const details = { in: "body", issues: thrown.issues };
    return new HttpError("invalid_request", `The body of the request does not fit: ${message}`, { details });
  }
  if (thrown instanceof SkillMissingError) {
    return new HttpError(`${thrown.what}_not_found`, `${message} ${skillAdvice[thrown.what]}`);
  }
  if (thrown instanceof SkillReadOnlyError) return new HttpError("skill_read_only", message);
  if (thrown instanceof McpServerError) {
    return new HttpError(thrown.code, message, { details: thrown.details });
  }
  if (thrown instanceof SecretError) return new HttpError("secret_invalid", message);
  if (thrown instanceof SettingError) return new HttpError("setting_invalid", message);
  if (thrown instanceof BlobMissingError) return new HttpError("result_missing", message);
  if (thrown instanceof InvalidCursorError || thrown instanceof PatternTooWideError) {
    const path = thrown instanceof InvalidCursorError ? "cursor" : "tool";
    const details = { in: "query", issues: [{ path, message }] };
    return new HttpError("invalid_request", message, { details });
  }
  if (thrown instanceof ForbiddenAnswer) return new HttpError("forbidden", message);
  if (!(thrown instanceof UnfitAnswer)) return thrown;
  // Invalid arguments in an answer are the approver's mistake, so the question stays open.
  const { issues } = thrown;
  if (issues.length === 0) return misplaced("arguments", message);
  return new HttpError("invalid_arguments", `${message} The question stays open.`, { details: { issues } });
}
