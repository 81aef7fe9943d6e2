import type { LearnedSearch } from "../../store/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { formatTime } from "../text.ts";
import { withStore } from "../workspace.ts";

type Action = "list" | "forget" | "clear" | "on" | "off";

/**
 * `toolrack searches`: what search has learned from use. Works on the store, with and without a running server; a server
 * follows within seconds.
 */
export async function searches(cli: Cli, action: Action = "list", id: string | undefined): Promise<void> {
  if (action === "list") return list(cli);
  if (action === "on" || action === "off") return switchLearning(cli, action === "on");
  if (action === "forget" && id === undefined)
    throw usageError(`Which one? ${cli.commandLine("searches forget ID")}`);
  return forget(cli, action === "forget" ? id : undefined);
}

async function list(cli: Cli): Promise<void> {
  const { found, isOn } = await withStore(cli, async ({ searches: kept }) => ({
    found: await kept.list(),
    isOn: (await kept.state()).isOn,
  }));
  cli.answer({ learning: isOn, searches: found }, () => {
    if (found.length > 0)
      cli.table(["ID", "SEARCH", "TOOL", "USES", "LAST USED"], found.map(rowOf), { flexible: 1 });
    cli.talk(
      [
        found.length === 0 ? "No search has been learned." : `${counted(found.length)} learned.`,
        isOn ? "" : `Learning is off. Switch it on with: ${cli.commandLine("searches on")}`,
      ]
        .filter(Boolean)
        .join(" "),
    );
  });
}

function rowOf({ id, query, toolName, uses, usedAt }: LearnedSearch): string[] {
  return [id.slice(0, SHOWN_DIGITS), query, toolName, String(uses), formatTime(usedAt)];
}

/** Forgets one search, by its id or the beginning of it, or all. */
async function forget(cli: Cli, id: string | undefined): Promise<void> {
  const forgotten = await withStore(cli, async ({ searches: kept }) => {
    if (id === undefined) return kept.remove({});
    const meant = (await kept.list()).filter((one) => one.id.startsWith(id));
    if (meant.length === 1) return kept.remove({ id: meant[0]!.id });
    throw new CliError(
      meant.length === 0
        ? `No search has the id "${id}". See: ${cli.commandLine("searches list")}`
        : `${meant.length} searches have an id that begins with "${id}". Write more of it.`,
      { code: "search_not_found", details: { id } },
    );
  });
  cli.answer({ forgotten }, () => cli.talk(`Forgot ${counted(forgotten)}.`));
}

async function switchLearning(cli: Cli, isOn: boolean): Promise<void> {
  await withStore(cli, ({ searches: kept }) => kept.setOn(isOn));
  const off = `Nothing is learned from searches any more. What was learned helps nobody; delete it with: ${cli.commandLine("searches clear")}`;
  cli.answer({ learning: isOn }, () => cli.talk(isOn ? "Search learns from use." : off));
}

function counted(count: number): string {
  return `${count} ${count === 1 ? "search" : "searches"}`;
}

const SHOWN_DIGITS = 10;
