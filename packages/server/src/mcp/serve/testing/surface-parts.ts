import { ApprovalInbox } from "../../../calls/approvals/inbox.ts";
import { openCalls } from "../../../calls/call-service.ts";
import type { Expert } from "../../../skills/experts.ts";
import type { ExpertView } from "../caller.ts";
import { createMcpSurface } from "../surface.ts";
import type { ServedRack } from "./served-rack.ts";

const logger = { debug() {}, info() {}, warn() {}, error() {} };

/**
 * Makes a second MCP surface on a served rack, with the rack's experts, for tests that look inside the
 * surface.
 */
export async function surfaceParts({ serving: { app, store } }: ServedRack) {
  const { experts } = app.skills;
  const { service, recorder } = openCalls({ book: app.book, store, logger });
  return createMcpSurface({
    registry: app.registry,
    service,
    recorder,
    store,
    approvals: await ApprovalInbox.open({ store, logger }),
    racks: () => [],
    greet: () => undefined,
    starting: () => undefined,
    instructionsOf: () => undefined,
    offerings: app.offerings,
    experts: (nameOrId) => viewOf(experts.find(nameOrId)),
    expertById: (id) => viewOf(experts.byId(id)),
    onExpertsChanged: (listener) => experts.subscribe(listener),
    logger,
    config: { metaTools: "off" },
  });
}

function viewOf(found: Expert | undefined): ExpertView | undefined {
  return found && { id: found.id, name: found.name, version: found.version, allow: found.allows };
}
