/** A tool as its server describes it. Not to be trusted in any part. */
export interface UpstreamTool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  readonly annotations?: Readonly<Record<string, unknown>>;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

type Listed = Readonly<Record<string, unknown>>;

/** What a server offers, as it was last seen. */
export interface Catalogue {
  readonly tools: readonly UpstreamTool[];
  readonly prompts: readonly Listed[];
  readonly resources: readonly Listed[];
  readonly templates: readonly Listed[];
  readonly serverInfo?: { readonly name: string; readonly version: string };
  readonly instructions?: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export const emptyCatalogue: Catalogue = { tools: [], prompts: [], resources: [], templates: [], at: 0 };

/** The tools of an answer to `tools/list`. One that cannot be used at all is left out. */
export function toUpstreamTools(listed: readonly Listed[]): UpstreamTool[] {
  const tools = new Map<string, UpstreamTool>();
  for (const item of listed) {
    const { name, title, description, inputSchema, outputSchema, annotations, _meta } = item;
    if (typeof name !== "string" || name === "" || tools.has(name)) continue;
    const said =
      isRecord(annotations) && typeof annotations.title === "string" ? annotations.title : undefined;
    const shown = typeof title === "string" ? title : said;
    tools.set(name, {
      name,
      ...(shown === undefined ? {} : { title: shown }),
      ...(typeof description === "string" ? { description } : {}),
      inputSchema: isRecord(inputSchema) ? inputSchema : { type: "object" },
      ...(isRecord(outputSchema) ? { outputSchema } : {}),
      ...(isRecord(annotations) ? { annotations } : {}),
      ...(isRecord(_meta) ? { _meta } : {}),
    });
  }
  return [...tools.values()];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
