import type { EndedCall } from "../../calls/call-desk.ts";
import type { Exchange } from "./exchange.ts";
import type { Outlet } from "./outlet.ts";

/** Where a server stands: what it can do depends on how its client is connected. */
export interface ServerPlace {
  readonly era: "legacy" | "modern";
  /** False where nothing can reach the client but the answer itself. */
  readonly canAsk: boolean;
  /** The call that a request with this id has begun already, before the SDK was given the request. */
  readonly running?: (requestId: string | number) => Exchange<EndedCall> | undefined;
  /** The one way out, where requests do not each have their own. */
  readonly outlet?: Outlet;
}
