import type { UpstreamSession } from "../protocol/upstream-session.ts";
import { type Catalogue, checkCatalogue } from "./catalogue.ts";

export interface ReadCatalogueOptions {
  /** That of each list, in milliseconds. */
  readonly limit: number;
  /** What was known before; a list that cannot be read now stays as it was. */
  readonly before: Catalogue;
  readonly onProblem: (text: string) => void;
}

/** What a server offers now. Only the tools must be readable. */
export async function readCatalogue(
  session: UpstreamSession,
  { limit, before, onProblem }: ReadCatalogueOptions,
): Promise<Catalogue> {
  const { tools, prompts, resources } = session.capabilities;
  const cut: string[] = [];
  const onCut = (reason: string) => {
    cut.push(reason);
    onProblem(reason);
  };
  const list = async (wanted: unknown, method: string, member: string) =>
    wanted === undefined ? [] : session.list(method, member, { timeout: limit, onCut });
  const optional = (
    wanted: unknown,
    method: string,
    member: string,
    known: readonly Readonly<Record<string, unknown>>[],
  ) =>
    list(wanted, method, member).catch((error: Error) => {
      onProblem(`${method} could not be read, and what was known before is kept: ${error.message}`);
      return known;
    });
  const [toolList, promptList, resourceList, templateList] = await Promise.all([
    list(tools, "tools/list", "tools"),
    optional(prompts, "prompts/list", "prompts", before.prompts),
    optional(resources, "resources/list", "resources", before.resources),
    optional(resources, "resources/templates/list", "resourceTemplates", before.templates),
  ]);
  const { serverInfo, instructions } = session;
  return {
    ...checkCatalogue({
      tools: toolList,
      prompts: promptList,
      resources: resourceList,
      templates: templateList,
    }),
    ...(cut.length === 0 ? {} : { cut: cut.sort() }),
    ...(serverInfo === undefined
      ? {}
      : { serverInfo: { name: serverInfo.name, version: serverInfo.version } }),
    ...(instructions === undefined ? {} : { instructions }),
    at: Date.now(),
  };
}
