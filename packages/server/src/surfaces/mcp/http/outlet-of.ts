import type { ServerResponse } from "node:http";
import { Outlet } from "../outlet.ts";

/** The way out by which a request is answered with a stream. */
export function outletOf(outgoing: ServerResponse): Outlet {
  const outlet = new Outlet(() => outgoing.writableNeedDrain);
  const freed = () => outlet.freed();
  outgoing.on("drain", freed).on("close", freed);
  return outlet;
}
