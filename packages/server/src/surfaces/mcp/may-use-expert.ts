import type { Grant } from "../../auth/grant.ts";
import type { ExpertView } from "./viewer.ts";

/** Whether an expert exists for this bearer at all. A token may name it either way. */
export function mayUseExpert(grant: Grant, { id, name }: ExpertView): boolean {
  return grant.mayUseExpert(name) || grant.mayUseExpert(id);
}
