import type { Cli } from "../cli.ts";
import { ownFirst } from "../listed-tools.ts";
import { type Listing, type ListOptions, quickListing, showListing } from "../quick-list.ts";
import { withAllTools } from "../rack-tools.ts";
import { ListingDraft } from "../stored-listing.ts";
import { failuresIn, findWorkspace } from "../workspace.ts";
import { toolSummary } from "./tools.ts";

/**
 * `toolrack list`: the tools on the rack, the workspace's own first. A running server is asked, which has the tools of
 * MCP servers too. Without one the workspace is loaded, unless a listing is stored that still holds.
 */
export async function list(cli: Cli, options: ListOptions): Promise<void> {
  showListing(cli, options, (await quickListing(cli)) ?? (await loadedListing(cli)));
}

async function loadedListing(cli: Cli): Promise<Listing> {
  const draft = new ListingDraft(cli, findWorkspace(cli));
  const listing = await withAllTools(cli, async (app) => {
    const tools = app.registry.getAll().map(toolSummary).sort(ownFirst);
    const { files } = app.report;
    if (failuresIn({ files }).length === 0) await draft.add(app.workspace, tools);
    return { tools, files };
  });
  draft.store();
  return listing;
}
