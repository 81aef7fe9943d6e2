import { readFile, realpath, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import {
  type JsonSchemaObject,
  type Logger,
  Tool,
  type ToolContext,
  type ToolInfo,
  type ToolMetadata,
} from "@toolrack/core";
import { canonicalName } from "@toolrack/core/internal";
import { isReservedName, reservedNameReason } from "../calls/index.ts";
import type { SandboxConfig, SandboxGrant } from "../config/index.ts";
import type { StackMapper } from "../helpers/index.ts";
import { LoadError } from "../helpers/index.ts";
import type {
  DependencyStore,
  LogLine,
  OpenFolder,
  Sandbox,
  ToolLogs,
  ToolSource,
} from "../sandbox/index.ts";
import {
  DataFolders,
  type DescribedFile,
  type Description,
  DescriptionCache,
  describeFile,
  folderGrantAdvice,
  grantedHosts,
  KeptItems,
  missingHosts,
  openFolders,
  type SingleFileManual,
  SingleFileTool,
  ToolOwners,
  type ToolVariables,
  workerCode,
} from "../sandbox/index.ts";
import type { FilePlace } from "./contracts.ts";
import type { FileVersion, RecognisedFile } from "./load-report.ts";
import type { Compiler } from "./loader/compile.ts";

export interface SingleFileOptions {
  /** Absolute. */
  readonly workspace: string;
  readonly compiler: Compiler;
  readonly stacks: StackMapper;
  /** Opened when it is first needed. */
  readonly sandbox: () => Promise<Sandbox>;
  readonly dependencies: DependencyStore;
  readonly variables: ToolVariables;
  readonly logs: ToolLogs;
  readonly config: SandboxConfig;
  /** Returns a function that says why a path gives power over the workspace, as `powerCheck` does. */
  readonly powers: () => Promise<(path: string) => string | undefined>;
  readonly logger: Logger;
  /** Whether descriptions of tools are cached for the next start. */
  readonly isCached: boolean;
}

export interface LoadedSingleFile {
  readonly recognised: RecognisedFile;
  readonly retire: () => Promise<void>;
}

const LARGEST_SOURCE = 1024 * 1024;
const AT_ONCE = 4;

interface PreparedFile {
  readonly source: ToolSource;
  readonly file: DescribedFile;
  readonly isForeign: boolean;
}

/** Loads single-file tools. The server itself never evaluates their code. */
export class SingleFileTools {
  readonly #options: SingleFileOptions;
  readonly #cache: DescriptionCache;
  readonly #owners: ToolOwners;
  readonly #late = new Map<string, number>();
  readonly #prepared = new Map<string, Promise<PreparedFile>>();
  /** The stored data of each tool, by its name: a new version of the tool keeps using it. */
  readonly #items = new Map<string, KeptItems>();
  readonly #data: DataFolders;

  constructor(options: SingleFileOptions) {
    this.#options = options;
    const own = join(options.workspace, ".toolrack");
    const folder = join(own, "cache", "single-file");
    this.#data = new DataFolders(join(own, "data"));
    this.#cache = new DescriptionCache(options.isCached ? folder : undefined);
    this.#owners = new ToolOwners({ file: join(own, "tool-owners.json"), isKept: options.isCached });
  }

  /** Describes many files at once. `load` reports their problems. */
  async prepare(paths: readonly string[]): Promise<void> {
    const waiting = [...paths];
    const worker = async () => {
      for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
        const preparing = this.#prepare(path);
        this.#prepared.set(path, preparing);
        await preparing.catch(() => {});
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }

  /** Throws `LoadError`. */
  async load(path: string, place: FilePlace, version: FileVersion): Promise<LoadedSingleFile> {
    const preparing = this.#prepared.get(path) ?? this.#prepare(path);
    this.#prepared.delete(path);
    const { source, file, isForeign } = await preparing;
    const { description } = file;
    const name = nameOf(description);
    const { config, sandbox, variables, stacks, workspace } = this.#options;
    const grants = new Map(Object.entries(config.grants ?? {}));
    const grant = grants.get(name) ?? grants.get(description.metadata.id) ?? {};
    await this.#refuseTaken(name, place, description, grant);
    const hosts = grantedHosts(description.hosts, grant.hosts ?? []);
    await this.#foldersOf(grant);
    const hasPackages = Object.keys(description.dependencies).length > 0;
    const { concurrency } = description.metadata;
    const tool = new SingleFileTool({
      name,
      file,
      filename: source.filename,
      code: await workerCode(source),
      hosts,
      grant,
      isForeign,
      limits: { ...config.limits, ...(typeof concurrency === "number" ? { concurrency } : {}) },
      sandbox,
      variables,
      items: this.#itemsOf(name),
      data: this.#data,
      usesFiles: hasPackages || namesFiles(source),
      folders: () => this.#foldersOf(grant),
      emptyFolder: join(workspace, ".toolrack", "sandbox", "empty"),
      stacks,
      log: (line, context) => this.#log(name, line, context),
    });
    const run = version.watch((context: ToolContext<never>) => tool.run(context));
    const info = { ...adaptSingleFile(description, place, hosts, run), version: file.hash };
    const warnings = [
      ...description.warnings,
      ...hostWarnings(name, description.hosts, grant.hosts ?? []),
      ...(namesFiles(source) && grant.folders === undefined ? [folderWarning(name)] : []),
    ];
    return {
      recognised: { contract: "single-file", tools: [info], warnings },
      retire: () => tool.retire(),
    };
  }

  /** Whether the name belongs to the file `origin`, which published it in an earlier load. */
  owns(name: string, origin: string | undefined): boolean {
    return origin !== undefined && this.#owners.ownerOf(name) === origin;
  }

  /** Remembers which file each published name belongs to. */
  async claim(tools: readonly ToolInfo[]): Promise<void> {
    await this.#owners.claim(new Map(tools.map(({ name, origin = "" }) => [name, origin])));
  }

  close(): void {
    this.#options.logs.close();
  }

  /**
   * Throws `LoadError` when the name is reserved, or when it belongs to another file and has secrets, grants
   * or stored data, which only that file may use.
   */
  async #refuseTaken(
    name: string,
    { origin }: FilePlace,
    description: Description,
    grant: SandboxGrant,
  ): Promise<void> {
    if (isReservedName(name)) {
      throw new LoadError(
        `Its id is "${description.metadata.id}". ${reservedNameReason}`,
        "Give it another id.",
      );
    }
    await this.#owners.refresh();
    const owner = this.#owners.ownerOf(name);
    if (owner === undefined || owner === origin) return;
    const belongings = await this.#belongingsOf(name, description, grant);
    if (belongings.length === 0) return;
    throw new LoadError(
      `The name "${name}" belongs to ${owner}, and with it the ${belongings.join(" and the ")} of the tool, which no other file is given.`,
      `If it is the same tool, write its new place into .toolrack/tool-owners.json: "${name}": "${origin}". Otherwise give it another id.`,
      { retry: true },
    );
  }

  async #belongingsOf(name: string, { environment }: Description, grant: SandboxGrant): Promise<string[]> {
    const { variables } = this.#options;
    const declared = Object.keys(environment?.properties ?? {});
    // An unreadable secret still counts as set.
    const set = await Promise.all(declared.map((key) => variables.get(name, key, false).catch(() => "")));
    const items = this.#itemsOf(name);
    await items.refresh();
    const { files } = await this.#data.report(name);
    return [
      ...(set.some((value) => value !== undefined) ? ["settings and secrets"] : []),
      ...(Object.keys(grant).length > 0 ? ["grants"] : []),
      ...(Object.keys(items.snapshot().items).length > 0 ? ["stored data"] : []),
      ...(files > 0 ? ["data folder"] : []),
    ];
  }

  /** Throws `LoadError` for a folder that cannot be opened. */
  async #foldersOf({ folders = [] }: SandboxGrant): Promise<OpenFolder[]> {
    if (folders.length === 0) return [];
    const { workspace, powers } = this.#options;
    const powerOf = await powers();
    return openFolders(folders, workspace, (path) => powerOf(path) !== undefined);
  }

  async #prepare(path: string): Promise<PreparedFile> {
    const { workspace, compiler, stacks, sandbox, dependencies } = this.#options;
    const origin = relative(workspace, path);
    // Unreviewed code must not learn where on the machine it lies.
    const filename = `/${origin.split(sep).join("/").replaceAll("../", "")}`;
    const text = await readSource(path);
    const { code, map } = await compile(compiler, filename, text);
    stacks.add(filename, map, path);
    const isForeign = !(await liesIn(path, workspace));
    const source = { code, filename };
    const parts = { sandbox, dependencies, cache: this.#cache, stacks, late: this.#late };
    return { source, isForeign, file: await describeFile(source, origin, isForeign, parts) };
  }

  #itemsOf(name: string): KeptItems {
    const known = this.#items.get(name);
    if (known !== undefined) return known;
    const items = new KeptItems(join(this.#options.workspace, ".toolrack", "storage", name));
    this.#items.set(name, items);
    return items;
  }

  /** `context` is undefined for lines outside of calls. */
  #log(name: string, line: LogLine, context: ToolContext<never> | undefined): void {
    const { logs, logger } = this.#options;
    const { level, text, data } = logs.write(name, context?.callId, line);
    (context?.logger ?? logger)[level](`[${name}] ${text}`, ...(data === undefined ? [] : [data]));
  }
}

async function readSource(path: string): Promise<string> {
  const { size } = await stat(path);
  if (size > LARGEST_SOURCE) {
    throw new LoadError(
      `The file has ${(size / 1024 / 1024).toFixed(1)} MiB; a single-file tool may have ${LARGEST_SOURCE / 1024 / 1024} MiB.`,
      "Keep data in a package that getDependencies() names, or fetch it in execute().",
    );
  }
  return readFile(path, "utf8");
}

async function compile(compiler: Compiler, filename: string, text: string): ReturnType<Compiler["compile"]> {
  try {
    return await compiler.compile(filename, text, "{}");
  } catch (thrown) {
    if (!(thrown instanceof LoadError)) throw thrown;
    const { message, remedy, line } = thrown;
    throw new LoadError(message, remedy, { cause: thrown, ...(line === undefined ? {} : { line }) });
  }
}

/**
 * Whether the file is the workspace's own. A package, or a file behind a link out of the workspace, was
 * written by somebody else.
 */
async function liesIn(path: string, workspace: string): Promise<boolean> {
  const [file, folder] = await Promise.all([realpath(path), realpath(workspace)]);
  return file.startsWith(folder + sep) && !file.includes(`${sep}node_modules${sep}`);
}

/** Whether the text names Node's module for files. A tool that does not, and has no packages, cannot write any. */
function namesFiles({ code }: ToolSource): boolean {
  return /\bfs\b/.test(code);
}

function folderWarning(name: string): string {
  return `It may read and write files in its own folder, .toolrack/data/${name}, and in no other. If it needs folders of the workspace, open them in the config: ${folderGrantAdvice(name)}. If not, write folders: [] there.`;
}

function hostWarnings(
  name: string,
  declared: readonly string[] | undefined,
  granted: readonly string[],
): string[] {
  const missing = missingHosts(declared, granted);
  if (missing.length === 0) return [];
  const hosts = JSON.stringify([...granted, ...missing]);
  return [
    `It wants to reach ${missing.join(", ")}, which is not granted. Grant it in the config: sandbox: { grants: { "${name}": { hosts: ${hosts} } } }.`,
  ];
}

export function nameOf({ metadata }: Description): string {
  return canonicalName(metadata.id);
}

export function adaptSingleFile(
  description: Description,
  place: FilePlace,
  hosts: readonly string[],
  run: (context: ToolContext<never>) => Promise<unknown>,
): ToolInfo {
  const { metadata } = description;
  const name = nameOf(description);
  const info = Tool.define({
    name,
    description: metadata.description,
    parameters: withOtherKeys(description),
    ...(metadata.name === undefined || metadata.name === name ? {} : { displayName: metadata.name }),
    ...aliasesOf(description, place),
    metadata: metadataOf(description, place, hosts),
    execute: run as (context: ToolContext) => Promise<unknown>, // The pipeline validates the input.
  });
  return { ...info, origin: place.origin };
}

/**
 * The schema of the arguments. Where it is silent about other keys, JSON Schema lets them through, and such files rely
 * on it: they check in execute() what their schema does not declare.
 */
function withOtherKeys({ metadata, parameters }: Description): JsonSchemaObject {
  const isSilent =
    parameters.additionalProperties === undefined && parameters.unevaluatedProperties === undefined;
  return isSilent && metadata.strict !== true ? { ...parameters, additionalProperties: true } : parameters;
}

/**
 * The aliases: the id when it differs from the name, the file's name, and the author's aliases, except names
 * reserved for the rack.
 */
function aliasesOf({ metadata }: Description, { stem }: FilePlace): { aliases?: string[] } {
  const name = canonicalName(metadata.id);
  const declared = Array.isArray(metadata.aliases) ? metadata.aliases.map(String) : [];
  const aliases = [metadata.id, stem.replace(/\.tool$/, ""), ...declared];
  const others = [...new Set(aliases)].filter(
    (alias) => alias.toLowerCase() !== name.toLowerCase() && !isReservedName(alias),
  );
  return others.length === 0 ? {} : { aliases: others };
}

/** Keys of the author's metadata that are not copied: other fields hold them, or core would act on them unchecked. */
const uncopiedKeys = new Set(
  "id name description aliases examples network hosts permissions loop outputCheck singleFile".split(" "),
);

function metadataOf(description: Description, place: FilePlace, hosts: readonly string[]): ToolMetadata {
  const { metadata, environment, dependencies, businessErrors, bridges } = description;
  const { examples, permissions } = metadata;
  const manual: SingleFileManual = {
    ...(environment === undefined ? {} : { environment }),
    dependencies,
    businessErrors,
    bridges,
    hosts,
    examples: Array.isArray(examples) ? examples : [],
  };
  return {
    ...(place.folders.length === 0 ? {} : { category: place.folders.join("/") }),
    ...Object.fromEntries(Object.entries(metadata).filter(([key]) => !uncopiedKeys.has(key))),
    ...(Array.isArray(permissions) ? { permissions: permissions.map(String) } : {}),
    singleFile: manual,
  };
}
