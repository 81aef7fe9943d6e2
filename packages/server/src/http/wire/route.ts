import type { IncomingMessage, ServerResponse } from "node:http";
import type { JsonSchemaObject, Logger, ToolRegistry } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import type { Experts } from "../../skills/index.ts";
import type { Store } from "../../store/index.ts";
import type { HttpErrorCode } from "./errors.ts";

/** A request that passed every check: what it says fits the schemas of its route. */
export interface RouteRequest<Params, Query, Body> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  readonly grant: Grant;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
}

/** What a route answers. `sent`: it has written to `outgoing` itself. */
export type Reply =
  | "sent"
  | {
      readonly status?: number;
      /** Sent as JSON, or as it is when `contentType` is given. */
      readonly body: unknown;
      readonly contentType?: string;
      readonly headers?: Readonly<Record<string, string>>;
    };

export interface RouteResponse {
  readonly description: string;
  readonly contentType?: string;
  readonly schema: JsonSchemaObject;
}

export interface BodySpec {
  readonly schema: JsonSchemaObject;
  /** Without it, a missing body counts as `{}`. */
  readonly required?: boolean;
}

/** One row of the table from which the router, the validation and `/openapi.json` are all made. */
export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With `{name}` for parameters. */
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly description?: string;
  readonly tag: string;
  /** `open`: no token at all. `token`: any. `admin`: one of an admin. */
  readonly access: "open" | "token" | "admin";
  /** Properties of the path and of the query, by name. */
  readonly params?: Readonly<Record<string, JsonSchemaObject>>;
  readonly query?: Readonly<Record<string, JsonSchemaObject>>;
  readonly body?: BodySpec;
  readonly responses: Readonly<Record<number, RouteResponse | readonly RouteResponse[]>>;
  readonly errors?: readonly HttpErrorCode[];
  /** Takes the token from the URL too. Only for event streams, see `Credentials`. */
  readonly tokenInQuery?: boolean;
  // The table holds routes of all kinds; each is given exactly what its own schemas have let through.
  readonly handle: (request: RouteRequest<never, never, never>) => Reply | Promise<Reply>;
}

interface TypedRoute<Params, Query, Body> extends Omit<Route, "handle"> {
  readonly handle: (request: RouteRequest<Params, Query, Body>) => Reply | Promise<Reply>;
}

/** Only for its types: what the schemas let through is said once more as TypeScript, beside them. */
export function defineRoute<Params = object, Query = object, Body = unknown>(
  route: TypedRoute<Params, Query, Body>,
): Route {
  return route;
}

/**
 * Another surface on the same port. It is given requests as Node has them, after the checks that all requests pass, so
 * that its hot path costs no more than it must.
 */
export interface Mount {
  /** Whether a request for this path, without its query, is meant for it. */
  owns(path: string, method: string): boolean;
  /** `open`: no token at all. */
  readonly access: "open" | "token";
  /** Answers the request. What it throws or rejects with is answered like any other refusal. */
  handle(incoming: IncomingMessage, outgoing: ServerResponse, grant: Grant | undefined): void | Promise<void>;
  /** What it says to who has no token, beside the usual challenge. */
  challenge?(incoming: IncomingMessage): string;
  /** Ends streams that would keep the server from closing. What it has to answer before, it may take a moment for. */
  close?(): void | Promise<void>;
}

/** What every extension works with. */
export interface ExtensionParts {
  readonly registry: ToolRegistry;
  readonly skills: { readonly experts: Experts };
  readonly store: Store;
  readonly settings: { readonly heartbeat: number };
  readonly logger: Logger;
}

/** Routes of another surface in the table of the API: the same guard, the same OpenAPI document. */
export interface HttpExtension {
  routes(parts: ExtensionParts): readonly Route[];
  /** The named schemas that its routes refer to. */
  readonly schemas?: Readonly<Record<string, JsonSchemaObject>>;
  /** Called after a token was withdrawn or given other scopes. */
  grantsChanged?(): Promise<void>;
}
