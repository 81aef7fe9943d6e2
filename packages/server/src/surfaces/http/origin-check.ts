import { HttpError } from "./http-error.ts";

/** Refuses what pages of other origins send. Says whether the answer needs CORS headers. */
export function checkOrigin(
  origin: string | undefined,
  host: string | undefined,
  allowed: ReadonlySet<string>,
): boolean {
  if (origin === undefined) return false;
  if (allowed.has(origin)) return true;
  // The host itself has been checked before, so a page that it served is the server's own.
  if (host !== undefined && (origin === `http://${host}` || origin === `https://${host}`)) return false;
  throw new HttpError(
    "origin_not_allowed",
    `Pages of ${origin} may not use this server. Add the origin to the allowed origins if they should.`,
  );
}

const lifetime = "600";

export function corsHeaders(origin: string): Record<string, string> {
  return {
    "Access-Control-Allow-Origin": origin,
    "Access-Control-Expose-Headers": "Retry-After, Allow",
    Vary: "Origin",
  };
}

export function preflightHeaders(): Record<string, string> {
  return {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
    "Access-Control-Max-Age": lifetime,
  };
}
