import type { UpstreamSession } from "../protocol/upstream-session.ts";
import { type Catalogue, toUpstreamTools } from "./catalogue.ts";

/**
 * What a server offers now. Only the tools must be readable; of the rest, what is not is left empty. `limit` is that of
 * each list, in milliseconds.
 */
export async function readCatalogue(session: UpstreamSession, limit: number): Promise<Catalogue> {
  const { tools, prompts, resources } = session.capabilities;
  const optional = (wanted: unknown, method: string, member: string) =>
    wanted === undefined ? [] : session.list(method, member, limit).catch(() => []);
  const [toolList, promptList, resourceList, templateList] = await Promise.all([
    tools === undefined ? [] : session.list("tools/list", "tools", limit),
    optional(prompts, "prompts/list", "prompts"),
    optional(resources, "resources/list", "resources"),
    optional(resources, "resources/templates/list", "resourceTemplates"),
  ]);
  const { serverInfo, instructions } = session;
  return {
    tools: toUpstreamTools(toolList),
    prompts: promptList,
    resources: resourceList,
    templates: templateList,
    ...(serverInfo === undefined
      ? {}
      : { serverInfo: { name: serverInfo.name, version: serverInfo.version } }),
    ...(instructions === undefined ? {} : { instructions }),
    at: Date.now(),
  };
}
