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
  writeZip,
} from "../../skills/index.ts";
import type { SkillFile } from "../../store/index.ts";
import type { HttpServices } from "../services.ts";
import { HttpError, type Route, routesFor, s, sent } from "../wire/index.ts";
import { skillParams } from "./skill-answers.ts";

/** Limits of one upload, which may hold several skills. The limits of one skill are checked when it is read. */
const limits = { files: 5_000, bytes: 64 * 1024 * 1024 };

/** Files by path: text, or the bytes of binary files. */
type UploadedFiles = Readonly<
  Record<string, string | { readonly base64: string; readonly executable?: boolean }>
>;

const pattern = "^[A-Za-z0-9+/]*={0,2}$";
const filesSchema: s.Schema<UploadedFiles> = {
  type: "object",
  maxProperties: limits.files,
  additionalProperties: {
    anyOf: [s.text(), s.closed({ base64: s.text({ pattern }), "executable?": s.boolean() })],
  },
  description: "By their paths: text, or `{base64}` for what is none.",
};

/** Import and export of skills. */
export function skillTransferRoutes({ skills, sandbox, workspace }: HttpServices): Route[] {
  const route = routesFor("skills", "admin");
  return [
    route("POST /api/skills/import", "importSkills", "Brings skills and experts from elsewhere", {
      description: [
        "Takes what `toolrack skills import` takes: a folder with a `SKILL.md`, a folder of such folders, a dump (`.sql`),",
        "or CSV files named like the tables; as `files`, or as `archive`, which is what the export gives. Each is",
        "imported or told of in `failed`, whatever becomes of the others. With `dryRun`, nothing is changed and the",
        "answer says what would be.",
      ].join(" "),
      body: s.closed({
        "files?": filesSchema,
        "archive?": s.text("A zip archive, as Base64.", { pattern }),
        "replace?": s.boolean("Whether those with the same ids may be replaced."),
        "trust?": s.boolean("Whether they may have secrets and the network."),
        "dryRun?": s.boolean(),
      }),
      answer: ["What was imported, or would be.", s.ref("SkillImport")],
      async handle({ body: { files, archive, replace = false, trust = false, dryRun = false } }) {
        const options = { sandbox, install: skills.install, trusted: trust };
        const parent = join(workspace.directory, ".toolrack", "skills");
        const found = await readUpload(parent, await filesIn(files, archive), options);
        const done = dryRun
          ? planView(planImport(skills, found, { replace }))
          : importView(skills, await keepImport(skills, found, { replace }));
        return { dryRun, ...done };
      },
    }),
    route("GET /api/skills/{id}/export", "exportSkill", "A skill as a zip archive of its folder", {
      description: "It has everything: ids, tools and files. Importing it gives the same skill.",
      params: skillParams,
      answer: ["The archive.", s.text({ format: "binary" }), "application/zip"],
      errors: ["skill_not_found"],
      async handle({ params, outgoing }) {
        const skill = skills.require(params.id);
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
        return sent;
      },
    }),
  ];
}

async function filesIn(
  files: UploadedFiles | undefined,
  archive: string | undefined,
): Promise<readonly SkillFile[]> {
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
        return { name: tool.name, type: tool.type, failure };
      }),
    })),
    experts: experts.map(({ id, name }) => ({ id, name })),
    failed,
    warnings,
  };
}
