import { request } from "../../api/request.ts";
import type { Skill } from "../../api/skill-types.ts";
import type { FolderContent } from "./skill-folder.ts";

/**
 * Brings a skill from a folder. It stays off and without trust until all of its tools are there: what comes from
 * elsewhere gets no network and no secrets before a person says so. Says which tools were refused, and why.
 */
export async function importSkill(
  content: FolderContent,
): Promise<{ id: string; refused: readonly string[] }> {
  const { skill, files, tools, isEnabled } = content;
  const { id } = await request<Skill>("/api/skills", {
    method: "POST",
    body: { ...skill, enabled: false, ...(Object.keys(files).length === 0 ? {} : { files }) },
  });
  const path = `/api/skills/${encodeURIComponent(id)}`;
  await request(path, { method: "PATCH", body: { trusted: false } });
  const refused: string[] = [];
  for (const { id: _, ...tool } of tools) {
    try {
      await request(`${path}/tools`, { method: "POST", body: tool });
    } catch (thrown) {
      refused.push(`${tool.name}: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
    }
  }
  if (isEnabled) await request(path, { method: "PATCH", body: { enabled: true } });
  return { id, refused };
}
