/** How the HTTP surface behaves. Every value has a safe default. */
export interface HttpSettings {
  /** Host names under which the server is reached, beside `localhost` and IP addresses. */
  readonly allowedHosts: readonly string[];
  /** Origins such as `https://app.example` whose pages may use the API. Default: only the server's own pages. */
  readonly allowedOrigins: readonly string[];
  /** The largest body, in bytes. Default 10 MiB. */
  readonly maxBody: number;
  /** Requests a second, and at once, for each token but the master. `false` sets no limit. */
  readonly rateLimit: false | { readonly perSecond: number; readonly burst: number };
  /** How many calls of one tool may be under way through this surface. Default 256. */
  readonly maxCallsPerTool: number;
  /** How long the headers, and the whole request, may take to arrive, in milliseconds. */
  readonly headersTimeout: number;
  readonly requestTimeout: number;
  /** How long calls may go on after the server was told to stop, in milliseconds. Default 10,000. */
  readonly drainTimeout: number;
  /** How often a silent event stream shows that it lives, in milliseconds. Default 15,000. */
  readonly heartbeat: number;
  /** How many events a reader that lost its connection can catch up with. Default 10,000. */
  readonly feedSize: number;
}

export const defaultHttpSettings: HttpSettings = {
  allowedHosts: [],
  allowedOrigins: [],
  maxBody: 10 * 1024 * 1024,
  rateLimit: { perSecond: 100, burst: 200 },
  maxCallsPerTool: 256,
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  drainTimeout: 10_000,
  heartbeat: 15_000,
  feedSize: 10_000,
};
