import { join } from "node:path";
import type { SkillLibrary } from "../../skills/index.ts";
import {
  folderFiles,
  folderNames,
  type Imported,
  type ImportPlan,
  keepImport,
  planImport,
  readUpload,
  readZip,
  SkillInputError,
  SkillMissingError,
  SkillReadOnlyError,
  writeZip,
} from "../../skills/index.ts";
import { SkillChangedError, type SkillFile } from "../../store/index.ts";
import type { HttpParts } from "../app.ts";
import { ref } from "../schemas/common.ts";
import { defineRoute, HttpError, type Route } from "../wire/index.ts";
import { skillParams } from "./skills.ts";

interface ImportBody {
  readonly files?: Readonly<
    Record<string, string | { readonly base64: string; readonly executable?: boolean }>
  >;
  readonly archive?: string;
  readonly replace?: boolean;
  readonly trust?: boolean;
  readonly dryRun?: boolean;
}

/** More than one skill may come at once; what one may have is checked where it is read. */
const limits = { files: 5_000, bytes: 64 * 1024 * 1024 };

const base64 = { type: "string", pattern: "^[A-Za-z0-9+/]*={0,2}$" };

/** Skills on their way from and to other places. */
export function skillTransferRoutes({ skills, sandbox, workspace }: HttpParts): Route[] {
  return [
    defineRoute<object, object, ImportBody>({
      method: "POST",
      path: "/api/skills/import",
      id: "importSkills",
      tag: "skills",
      summary: "Brings skills and experts from elsewhere",
      description: [
        "Takes what `toolrack skills import` takes: a folder with a `SKILL.md`, a folder of such folders, a dump (`.sql`),",
        "or CSV files named like the tables; as `files`, or as `archive`, which is what the export gives. Each is",
        "imported or told of in `failed`, whatever becomes of the others. With `dryRun`, nothing is changed and the",
        "answer says what would be.",
      ].join(" "),
      access: "admin",
      body: {
        required: true,
        schema: {
          type: "object",
          properties: {
            files: {
              type: "object",
              maxProperties: limits.files,
              additionalProperties: {
                anyOf: [
                  { type: "string" },
                  {
                    type: "object",
                    properties: { base64, executable: { type: "boolean" } },
                    required: ["base64"],
                    additionalProperties: false,
                  },
                ],
              },
              description: "By their paths: text, or `{base64}` for what is none.",
            },
            archive: { ...base64, description: "A zip archive, as Base64." },
            replace: { type: "boolean", description: "Whether those with the same ids may be replaced." },
            trust: { type: "boolean", description: "Whether they may have secrets and the network." },
            dryRun: { type: "boolean" },
          },
          additionalProperties: false,
        },
      },
      responses: { 200: { description: "What was imported, or would be.", schema: ref("SkillImport") } },
      async handle({ body }) {
        const { replace = false, trust = false, dryRun = false } = body;
        const options = { sandbox, trusted: trust };
        const parent = join(workspace.directory, ".toolrack", "skills");
        const found = await refusing(async () => readUpload(parent, await filesIn(body), options));
        const done = dryRun
          ? planView(planImport(skills, found, { replace }))
          : importView(skills, await keepImport(skills, found, { replace }));
        return { body: { dryRun, ...done } };
      },
    }),
    defineRoute<{ id: string }>({
      method: "GET",
      path: "/api/skills/{id}/export",
      id: "exportSkill",
      tag: "skills",
      summary: "A skill as a zip archive of its folder",
      description: "It has everything: ids, tools and files. Importing it gives the same skill.",
      access: "admin",
      params: skillParams,
      responses: {
        200: {
          description: "The archive.",
          contentType: "application/zip",
          schema: { type: "string", format: "binary" },
        },
      },
      errors: ["skill_not_found"],
      async handle({ params, outgoing }) {
        const skill = await refusing(() => skills.require(params.id));
        const name = folderNames(skills.list()).get(skill.id)!;
        const files = await folderFiles(skill, () => skills.filesOf(skill), name).catch((thrown: Error) => {
          throw new HttpError("invalid_request", `The skill cannot be exported. ${thrown.message}`);
        });
        const bytes = await writeZip(files.map((file) => ({ ...file, path: `${name}/${file.path}` })));
        outgoing.writeHead(200, {
          "Content-Type": "application/zip",
          "Content-Disposition": `attachment; filename="${name}.zip"`,
          "Content-Length": bytes.length,
        });
        outgoing.end(bytes);
        return "sent" as const;
      },
    }),
  ];
}

async function filesIn({ files, archive }: ImportBody): Promise<readonly SkillFile[]> {
  if ((files === undefined) === (archive === undefined)) {
    throw SkillInputError.of("files", "Send either files or an archive.");
  }
  if (archive !== undefined) {
    return readZip(Buffer.from(archive, "base64"), limits).catch((thrown: Error) => {
      throw SkillInputError.of("archive", thrown.message);
    });
  }
  return Object.entries(files ?? {}).map(([path, file]) => {
    if (typeof file === "string") return { path, content: Buffer.from(file), executable: false };
    return { path, content: Buffer.from(file.base64, "base64"), executable: file.executable === true };
  });
}

function planView({ skills, experts, failed, warnings }: ImportPlan): object {
  return {
    skills: skills.map(({ bundle: { skill, tools, files }, replaces }) => ({
      id: skill.id,
      name: skill.name,
      description: skill.description ?? "",
      replaces,
      tools: tools.map(({ name, type }) => ({ name, type })),
      files: files.map(({ path }) => path),
    })),
    experts,
    failed,
    warnings,
  };
}

function importView(library: SkillLibrary, { skills, experts, failed, warnings }: Imported): object {
  return {
    skills: skills.map(({ id, name, description, tools }) => ({
      id,
      name,
      description,
      tools: tools.map((tool) => {
        const failure = library.failureOf(tool.id);
        return { name: tool.name, type: tool.type, ...(failure === undefined ? {} : { failure }) };
      }),
    })),
    experts: experts.map(({ id, name }) => ({ id, name })),
    failed,
    warnings,
  };
}

const advice = {
  skill: "GET /api/skills lists them.",
  skill_tool: "GET /api/skills/{id} lists them.",
  expert: "GET /api/experts lists them.",
} as const;

/** Does what a request asks for; a refusal is answered as the API answers it. */
export async function refusing<Result>(work: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (thrown) {
    if (thrown instanceof SkillInputError) {
      const details = { in: "body", issues: thrown.issues };
      throw new HttpError("invalid_request", `The body of the request does not fit: ${thrown.message}`, {
        details,
      });
    }
    if (thrown instanceof SkillMissingError) {
      throw new HttpError(`${thrown.what}_not_found`, `${thrown.message} ${advice[thrown.what]}`);
    }
    if (thrown instanceof SkillReadOnlyError) throw new HttpError("skill_read_only", thrown.message);
    throw thrown;
  }
}

/** The same for a change of what may have been changed by somebody else: the refusal has the wanted fields as they are. */
export function refusingUnseen<Result>(fields: object, work: () => Promise<Result>): Promise<Result> {
  return refusing(async () => {
    try {
      return await work();
    } catch (thrown) {
      if (!(thrown instanceof SkillChangedError)) throw thrown;
      const all: Readonly<Record<string, unknown>> = { ...thrown.now };
      const now = Object.fromEntries(Object.keys(fields).map((field) => [field, all[field] ?? null]));
      throw new HttpError(
        "skill_changed",
        `"${thrown.now.name}" was changed by somebody else after it was read. Read it again, and change what it is now.`,
        { details: { updatedAt: thrown.now.updatedAt, now } },
      );
    }
  });
}

/** What a request that changes something says of what it saw. */
export const seenVersion = {
  updatedAt: {
    type: "integer",
    description:
      "The `updatedAt` of what was looked at. When it is another one by now, nothing is changed (`skill_changed`).",
  },
} as const;
